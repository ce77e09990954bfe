"""Several kernels checked one after another, and timed interleaved with each other and the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core import Config, Evaluation, Kernel
from .candidate.client import CandidateClient
from .candidate.verified import Failure, VerifiedConfig
from .compilation.pool import CompileResult
from .pipeline.evaluation import EvaluationPipeline
from .pipeline.verdicts import common_fields, failed_evaluation
from .pipeline.verification import Verification
from .reference.client import ReferenceClient
from .workers.channel import Message


@dataclass
class Entrant:
    """A kernel that was checked, and waits to be timed."""

    kernel: Kernel
    asked: Verification
    checked: VerifiedConfig
    compiled: CompileResult | None
    found: dict[str, Any] = field(default_factory=dict)
    """The fields of its evaluation so far."""

    def close(self) -> None:
        """End its processes."""
        self.asked.close()
        self.client.close()

    @property
    def client(self) -> CandidateClient:
        """Its process, which has ended where it is replayed."""
        return self.asked.client


class Lost(Exception):
    """An entrant failed while all were timed; the others have to be timed without it."""

    def __init__(self, number: int, evaluation: Evaluation) -> None:
        super().__init__(evaluation.message)
        self.number = number
        self.evaluation = evaluation


class ContestPipeline(EvaluationPipeline):
    """The steps of an evaluation, for kernels that are timed together. The caller has the device."""

    def enter(
        self,
        reference_client: ReferenceClient,
        client: CandidateClient,
        compiled: CompileResult | None,
    ) -> Entrant | Evaluation:
        """Check a kernel in full, all but its timing; return its evaluation where it fails.

        What is replayed no longer needs its process, which ends.
        """
        asked = self._verification(reference_client, client)
        found = common_fields(reference_client, client.kernel, Config()) | {"stages": asked.stages}
        found["code_digest"] = compiled.digest if compiled else None
        try:
            plan = asked.plan()
            checked = asked.check(Config(), plan, compiled)
            asked.prove(checked)
            asked.replay(checked, plan)
            entrant = Entrant(client.kernel, asked, checked, compiled, found)
            found |= {"compile_s": checked.compile_s, "replay": checked.replay, "correctness": checked.correctness}
            found["host_us"] = checked.host_us
            if checked.replayed:
                found |= self._last_looks(asked, checked, compiled)
                client.close()
        except Failure as failure:
            asked.close()
            return self._failed(reference_client, client, failure, found)
        except BaseException:
            asked.close()
            raise
        return entrant

    def together(self, reference_client: ReferenceClient, entrants: Sequence[Entrant]) -> list[Evaluation]:
        """Time all, and check what was timed. Raises `Lost` for the first that fails."""
        last = entrants[-1].asked
        first, *others = [entrant.asked.pid_of(entrant.checked) for entrant in entrants]
        timers = [self._watched(number, one) for number, one in enumerate(entrants)]
        self._access.share_no_longer()
        with last.stage("timing"):
            times = self._timer.time(
                reference_client,
                timers,
                first,
                last.timing_seeds,
                self._settings.sampling,
                more_pids=others,
            )
        peak_bytes = self._processes.device_memory.peak_bytes
        found = []
        for number, one in enumerate(entrants):
            try:
                self._recheck(one.asked, one.checked)
                self._require_possible(reference_client, times.candidates[number])
                if not one.checked.replayed:
                    one.found |= self._last_looks(one.asked, one.checked, one.compiled)
            except Failure as failure:
                raise self._lost(number, one, failure) from None
            metrics = times.metrics(number, self._device == "cpu")
            metrics |= {"packing": one.checked.packing, "peak_memory_bytes": peak_bytes}
            found.append(Evaluation(**{**one.found, **metrics}))
        return found

    def _watched(self, number: int, one: Entrant) -> Callable[[int], Message]:
        """Return the timer of an entrant, whose failure names it."""
        (timer,) = one.asked.timers([one.checked])

        def take(samples: int) -> Message:
            try:
                return timer(samples)
            except Failure as failure:
                raise self._lost(number, one, failure) from None

        return take

    def _lost(self, number: int, one: Entrant, failure: Failure) -> Lost:
        return Lost(number, self._failed(one.asked.reference_client, one.client, failure, one.found))

    def _failed(
        self, reference_client: ReferenceClient, client: CandidateClient, failure: Failure, found: dict[str, Any]
    ) -> Evaluation:
        failed = failed_evaluation(reference_client, client, Config(), failure)
        client.close()
        return failed.model_copy(update={"code_digest": found["code_digest"], "stages": found["stages"]})
