"""`evaluate`: one kernel, or all of a KernelBench run folder, by one protocol or both."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core import DEFAULT_WORKLOAD, Config, KernelError, TorchProblem
from ..core.events import Emit, progress, working
from ..corpus import find_problem
from ..evaluators.kernelbench.evaluator import KernelBench, KernelBenchSettings
from ..evaluators.kernelbench.precision import Precision
from ..evaluators.kernelbench.result import THRESHOLDS, KernelBenchResult, fast_p
from ..evaluators.kernelbench.run_folder import RunFolder, Sample, StrictResult
from ..evaluators.local import LocalEvaluator
from ..evaluators.remote.machines import Remote
from ..evaluators.several_workloads import SeveralWorkloads
from .devices import choose_device
from .evaluators import joined, local_evaluator, remote_evaluator
from .jobs import Job, find_job
from .options.evaluate import PERF_TRIALS, EvaluateOptions
from .verdicts import ProtocolVerdicts

INLINE = "cuda"
"""KernelBench's name for sources that are neither Triton nor TileLang."""


@dataclass(frozen=True)
class FolderResult:
    """The results of a run folder."""

    verdicts: tuple[ProtocolVerdicts, ...]
    """Of the kernels without an earlier result."""
    speedups: dict[int, float | None]
    """By problem number: KernelBench's; None for a kernel that is not correct."""
    strict_speedups: dict[int, float | None] | None = None
    """By problem number: of the strict protocol, None for a kernel that is not proven correct, or was disturbed. None
    where that protocol was not asked for."""

    @property
    def counted(self) -> dict[int, float | None]:
        """The speedups that count: where both protocols were asked for, the strict ones."""
        return self.speedups if self.strict_speedups is None else self.strict_speedups

    @property
    def correct(self) -> bool:
        """Whether every kernel that was evaluated now is correct by every requested protocol."""
        return all(verdict.correct for verdict in self.verdicts)

    def record(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it."""
        return {
            "results": [verdict.record() for verdict in self.verdicts],
            "problems": len(self.speedups),
            "fast_p": _shares(self.counted),
            **({} if self.strict_speedups is None else {"kernelbench_fast_p": _shares(self.speedups)}),
        }


def _shares(speedups: dict[int, float | None]) -> dict[str, float]:
    return {str(p): fast_p(list(speedups.values()), p) for p in THRESHOLDS}


def run_evaluate(options: EvaluateOptions, emit: Emit) -> ProtocolVerdicts:
    """Evaluate `options.kernel`."""
    assert options.kernel is not None
    with joined(options) as remote:
        if remote is not None:
            return _evaluate_there(options, options.kernel, remote, emit)
    device = choose_device(options)
    with local_evaluator(device, options) as evaluator:
        return _Evaluation(options, device, emit, evaluator).one(options.kernel)


def run_evaluate_folder(options: EvaluateOptions, emit: Emit) -> FolderResult:
    """Evaluate every kernel of `options.run_folder` that has no result yet, each stored at once."""
    device = choose_device(options)
    with local_evaluator(device, options) as evaluator:
        return _Evaluation(options, device, emit, evaluator).folder()


def _evaluate_there(options: EvaluateOptions, kernel: str, remote: Remote, emit: Emit) -> ProtocolVerdicts:
    """One kernel by the strict protocol, on other machines."""
    job = find_job(options, kernel, choose_device(options, remote), remote)
    with working(emit, f"evaluating {job.problem.id} on {job.where}"):
        there = remote_evaluator(remote, options)
        (evaluation,) = SeveralWorkloads(there, lambda: there).evaluate(job.problem, job.kernel, [Config()])
    return ProtocolVerdicts(job.problem.id, job.problem.workload, evaluation)


@dataclass(frozen=True)
class _Subject:
    """What is to be evaluated: a kernel, or a file that is none, which only KernelBench has a verdict for."""

    problem: TorchProblem
    source: str
    job: Job | None
    refusal: str = ""

    @property
    def backend(self) -> str:
        return str(self.job.kernel.language) if self.job else INLINE


class _Evaluation:
    """What both forms share."""

    def __init__(self, options: EvaluateOptions, device: str, emit: Emit, evaluator: LocalEvaluator) -> None:
        self._options, self._device = options, device
        self._emit, self._evaluator = emit, evaluator
        precision, trials = options.kernelbench_precision or Precision.FP32, options.perf_trials or PERF_TRIALS
        settings = KernelBenchSettings(precision=precision, perf_trials=trials)
        self._kernelbench = KernelBench(evaluator.processes, settings)

    def one(self, reference: str) -> ProtocolVerdicts:
        """One kernel."""
        job = find_job(self._options, reference, self._device)
        subject = _Subject(job.problem, job.kernel.source, job)
        folder = RunFolder(self._options.run_folder) if self._options.run_folder else None
        sample = Sample.of(job.problem, self._options.sample_id or 0) if folder else None
        if folder and sample:
            folder.check(sample)
        with working(self._emit, f"evaluating {job.problem.id} on {self._device}"):
            verdicts = self._verdicts(subject)
        if folder and sample and verdicts.result:
            folder.add(sample, job.problem, subject.source, verdicts.result, _strict(verdicts))
        return verdicts

    def folder(self) -> FolderResult:
        """Every kernel of the run folder that has no result yet."""
        assert self._options.run_folder is not None
        folder = RunFolder(self._options.run_folder)
        samples = folder.samples()
        # A wrong dataset should not show after an hour.
        problems = {sample.problem_id: find_problem(sample.problem_id, self._options.dataset) for sample in samples}
        found: list[ProtocolVerdicts] = []
        with progress(self._emit, "evaluating", len(samples)) as step:
            for sample in samples:
                # Another command may be working on the same folder.
                if not folder.has(sample) or (self._options.strict and not folder.has_strict(sample)):
                    subject = self._subject(folder.kernel(sample), problems[sample.problem_id].read())
                    verdicts = self._verdicts(subject)
                    assert verdicts.result is not None
                    folder.store(sample, subject.problem, verdicts.result, _strict(verdicts))
                    found.append(verdicts)
                step(sample.file_name)
        number = self._options.sample_id or 0
        strict = folder.strict_speedups(number) if self._options.strict else None
        return FolderResult(tuple(found), folder.speedups(number), strict)

    def _subject(self, path: Path, problem: TorchProblem) -> _Subject:
        options = replace(self._options, kernel=str(path), problem=problem.id)
        try:
            job = find_job(options, str(path), self._device)
        except KernelError as error:
            source = path.read_text(errors="replace")
            return _Subject(problem.at(options.workload or DEFAULT_WORKLOAD), source, None, str(error))
        return _Subject(job.problem, job.kernel.source, job)

    def _verdicts(self, subject: _Subject) -> ProtocolVerdicts:
        evaluation, refusal = None, subject.refusal if self._options.strict else ""
        if self._options.strict and subject.job is not None:
            job = subject.job
            with contextlib.ExitStack() as stack:
                several = SeveralWorkloads(
                    self._evaluator,
                    lambda: stack.enter_context(local_evaluator(self._device, self._options)),
                )
                (evaluation,) = several.evaluate(job.problem, job.kernel, [Config()])
        result: KernelBenchResult | None = None
        if self._options.kernelbench:
            result = self._kernelbench.evaluate(subject.problem, subject.source, subject.backend)
        return ProtocolVerdicts(subject.problem.id, subject.problem.workload, evaluation, refusal, result)


def _strict(verdicts: ProtocolVerdicts) -> StrictResult | None:
    """Return the strict verdict as a run folder holds it; None where it was not asked for."""
    found = verdicts.evaluation
    if found is None:
        return StrictResult(status=verdicts.refusal) if verdicts.refusal else None
    speedup = found.speedup.ratio if found.speedup else None
    return StrictResult(status=found.status.value, speedup=speedup, contention=found.contention)
