"""Several kernels checked one after another, and timed interleaved with each other and the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core import Config, Evaluation, Kernel
from .candidate.client import CandidateClient
from .candidate.verified import CandidateError, VerifiedConfig
from .compilation.pool import CompileResult
from .pipeline.evaluation import EvaluationPipeline
from .pipeline.interleaved_timer import InterleavedTimes
from .pipeline.verdicts import common_fields, failed_evaluation
from .pipeline.verification import Verification
from .reference.client import ReferenceClient
from .workers.channel import Message


@dataclass
class Entrant:
    """A kernel that was checked, and waits to be timed."""

    kernel: Kernel
    verification: Verification
    checked: VerifiedConfig
    compiled: CompileResult | None
    found: dict[str, Any] = field(default_factory=dict)
    """The fields of its evaluation so far."""

    def close(self) -> None:
        """End its processes."""
        self.verification.close()
        self.client.close()

    @property
    def client(self) -> CandidateClient:
        """Client of the candidate's process, which has already ended if the candidate is replayed."""
        return self.verification.client


class EntrantFailedError(Exception):
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
        verification = self._verification(reference_client, client)
        found = common_fields(reference_client, client.kernel, Config()) | {"stages": verification.stages}
        found["code_digest"] = compiled.digest if compiled else None
        try:
            plan = verification.plan()
            checked = verification.check(Config(), plan, compiled)
            verification.prove(checked)
            verification.replay(checked, plan)
            entrant = Entrant(client.kernel, verification, checked, compiled, found)
            found |= {"compile_s": checked.compile_s, "replay": checked.replay, "correctness": checked.correctness}
            found["host_us"] = checked.host_us
            if checked.replayed:
                found |= self._collect_diagnostics(verification, checked, compiled)
                client.kill()
        except CandidateError as failure:
            verification.close()
            return self._failed(reference_client, client, failure, found)
        except BaseException:
            verification.close()
            raise
        return entrant

    def together(self, reference_client: ReferenceClient, entrants: Sequence[Entrant]) -> list[Evaluation]:
        """Time all, and check what was timed. Raises `EntrantFailedError` for the first that fails."""
        last = entrants[-1].verification
        first, *others = [entrant.verification.pid_of(entrant.checked) for entrant in entrants]
        timers = [self._watched(number, entrant) for number, entrant in enumerate(entrants)]
        self._access.upgrade_to_exclusive()
        last.warm_up()
        for entrant in entrants:
            if entrant.checked.replayed:
                entrant.client.end()
        with last.stage("timing"):
            times = self._timer.time(
                reference_client,
                timers,
                first,
                last.timing_seeds,
                self._settings.sampling,
                more_pids=others,
            )
        peak_bytes = self._processes.servers.device_memory.peak_bytes
        for number, entrant in enumerate(entrants):
            try:
                self._recheck(entrant.verification, entrant.checked)
                self._require_possible(reference_client, times.candidates[number])
                if not entrant.checked.replayed:
                    entrant.found |= self._collect_diagnostics(entrant.verification, entrant.checked, entrant.compiled)
            except CandidateError as failure:
                raise self._lost(number, entrant, failure) from None
        self._sanitize_fastest(entrants, times)
        found = []
        for number, entrant in enumerate(entrants):
            metrics = times.metrics(number, self._device == "cpu")
            metrics |= {
                "sanitizer": entrant.checked.sanitizer,
                "packing": entrant.checked.packing,
                "peak_memory_bytes": peak_bytes,
            }
            found.append(Evaluation(**{**entrant.found, **metrics}))
        return found

    def _sanitize_fastest(self, entrants: Sequence[Entrant], times: InterleavedTimes) -> None:
        """Let compute-sanitizer look at the fastest that counts.

        Raises `EntrantFailedError` where it finds something.
        """
        for number in times.fastest_first():
            entrant = entrants[number]
            try:
                self._sanitize(entrant.verification, entrant.checked)
            except CandidateError as failure:
                raise self._lost(number, entrant, failure) from None
            if entrant.checked.replayed:
                return

    def _watched(self, number: int, entrant: Entrant) -> Callable[[int], Message]:
        """Return the timer of an entrant, whose failure names it."""
        (timer,) = entrant.verification.timers([entrant.checked])

        def take(samples: int) -> Message:
            try:
                return timer(samples)
            except CandidateError as failure:
                raise self._lost(number, entrant, failure) from None

        return take

    def _lost(self, number: int, entrant: Entrant, failure: CandidateError) -> EntrantFailedError:
        return EntrantFailedError(
            number, self._failed(entrant.verification.reference_client, entrant.client, failure, entrant.found)
        )

    def _failed(
        self, reference_client: ReferenceClient, client: CandidateClient, failure: CandidateError, found: dict[str, Any]
    ) -> Evaluation:
        failed = failed_evaluation(reference_client, client, Config(), failure)
        client.close()
        return failed.model_copy(update={"code_digest": found["code_digest"], "stages": found["stages"]})
