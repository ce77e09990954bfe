"""Several kernels checked one after another, and timed interleaved with each other and the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core import Config, Evaluation, Kernel, ProblemError, Rejection, TorchProblem
from .candidate.client import CandidateClient
from .candidate.verified import CandidateError, VerifiedConfig
from .compilation.pool import CompileResult
from .guards.own_kernels import registers_operators
from .pipeline.candidate_runner import CONFIRMED, SUSPICIOUS_SPEEDUP, CandidateRunner
from .pipeline.evaluation import EvaluationPipeline, is_timed
from .pipeline.interleaved_timer import InterleavedTimes
from .pipeline.lost_servers import Pair
from .pipeline.verdicts import common_fields, compile_failure, failed_evaluation, rejected_evaluation
from .pipeline.verification import Verification
from .reference.client import ReferenceClient
from .settings import Precision
from .workers.channel import Message
from .workers.client import ServerEndedError


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
                rivals=len(entrants),
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


class Contest:
    """Evaluates kernels together; without those that fail, and one by one where that is not possible."""

    def __init__(
        self,
        pipeline: ContestPipeline,
        runner: CandidateRunner,
        precision: Precision,
        broken_rule: Callable[[TorchProblem, Kernel], Rejection | None],
        in_full: Callable[[TorchProblem, Iterable[Pair]], Iterable[Evaluation]],
    ) -> None:
        """`broken_rule` says which rule a kernel's source breaks, None where it breaks none; `in_full` evaluates
        kernels one after another."""
        self._pipeline = pipeline
        self._runner = runner
        self._precision = precision
        self._broken_rule = broken_rule
        self._in_full = in_full

    def evaluations(self, problem: TorchProblem, kernels: Sequence[Kernel]) -> list[Evaluation]:
        """Return one evaluation per kernel; a suspicious speedup is measured a second time."""
        found = self._contested(problem, kernels)
        if any(item.speedup is not None and item.speedup.ratio > SUSPICIOUS_SPEEDUP for item in found):
            found = [_confirmed(item) for item in self._contested(problem, kernels)]
        return found

    def _contested(self, problem: TorchProblem, kernels: Sequence[Kernel]) -> list[Evaluation]:
        """Evaluate together, without those that fail; one by one where that is not possible."""
        found: dict[int, Evaluation] = {}
        together = all(is_timed(item, self._runner.device) and not registers_operators(item.source) for item in kernels)
        while together and len(found) < len(kernels):
            left = [number for number in range(len(kernels)) if number not in found]
            try:
                found |= dict(
                    zip(left, self._beside_each_other(problem, [kernels[item] for item in left]), strict=True)
                )
            except EntrantFailedError as lost:
                found[left[lost.number]] = lost.evaluation
            except (ProblemError, ServerEndedError):  # alone it shows whether that is the reference's own fault
                together = False
            finally:
                self._runner.forget_candidate()
        measured = all(item.measured for item in found.values())
        if together and measured and not self._runner.may_lack_memory(problem, found.values()):
            return [found[number] for number in range(len(kernels))]
        return list(self._in_full(problem, ((kernel, Config()) for kernel in kernels)))

    def _beside_each_other(self, problem: TorchProblem, kernels: Sequence[Kernel]) -> list[Evaluation]:
        """Check one kernel after another, then time those that passed.

        Raises `EntrantFailedError` where one fails only then.
        """
        entrants: dict[int, Entrant] = {}
        try:
            found = self._entered(problem, kernels, entrants)
            if entrants:
                current = next(iter(entrants.values())).verification.reference_client
                with self._runner.shared(current):
                    timed = self._pipeline.together(current, list(entrants.values()))
                found |= dict(zip(entrants, timed, strict=True))
        except EntrantFailedError as lost:
            raise EntrantFailedError([*entrants][lost.number], lost.evaluation) from None
        finally:
            for entrant in entrants.values():
                entrant.close()
        return [found[number] for number in range(len(kernels))]

    def _entered(
        self, problem: TorchProblem, kernels: Sequence[Kernel], entrants: dict[int, Entrant]
    ) -> dict[int, Evaluation]:
        """Add those that pass their checks to `entrants`, by number; return the evaluations of the others."""
        found: dict[int, Evaluation] = {}
        reference_client = self._runner.reference_for(problem, kernels[0])
        self._runner.processes.servers.device_memory.restart()
        for number, kernel in enumerate(kernels):
            if (broken := self._broken_rule(problem, kernel)) is not None:
                found[number] = rejected_evaluation(kernel, Config(), broken, self._precision)
                continue
            current, client, compiled = self._runner.prepared(problem, kernel, Config())
            if current is not reference_client:
                raise ProblemError(f"the reference of {problem.id} was started again")
            if compiled is not None and compiled.refused:
                found[number] = compile_failure(reference_client, kernel, Config(), compiled)
                continue
            with self._runner.shared(reference_client):
                entered = self._pipeline.enter(reference_client, client, compiled)
            self._runner.client = None  # what is not replayed needs its process until it was timed
            if isinstance(entered, Evaluation):
                found[number] = entered
            else:
                entrants[number] = entered
        return found


def _confirmed(found: Evaluation) -> Evaluation:
    if found.speedup is None or found.speedup.ratio <= SUSPICIOUS_SPEEDUP or found.contention is not None:
        return found
    told = "; ".join(filter(None, [found.message, CONFIRMED.format(SUSPICIOUS_SPEEDUP)]))
    return found.model_copy(update={"message": told})
