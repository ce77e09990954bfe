"""Judges a kernel by the requested protocols, and describes the verdicts and the reason for a difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import computed_field
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ...core import Config, Evaluation, EvaluationSummary, Kernel, Status, TorchProblem
from ...core.text import gigabytes
from ...evaluators.kernelbench.evaluator import KernelBench, KernelBenchSettings
from ...evaluators.kernelbench.precision import KernelBenchPrecision
from ...evaluators.kernelbench.result import KernelBenchResult, larger_tolerance
from ...evaluators.kernelbench.run_folder import RunFolder, Sample, StrictResult
from ...evaluators.local import LocalEvaluator
from ...evaluators.remote.evaluator import RemoteEvaluator
from ...evaluators.several_workloads import SeveralWorkloads
from ...runtime import command
from ...runtime.jobs import Job
from ...runtime.result import (
    EXPLAIN,
    EvaluationResult,
    ForPython,
    beside_reference,
    computed,
    doubts_of,
    library_line,
    sanitizer_line,
    status_text,
    table,
    workload_lines,
)
from ...runtime.runtime import OpenEvaluator
from . import PERF_TRIALS, Options

FAR_APART = 1.1
"""Speedups that differ by no more count as equal."""
INLINE = "cuda"
"""KernelBench's name for sources that are neither Triton nor TileLang."""
_WHY_ACCEPTED = {
    Status.UNPROVEN: "it times what the kernel's own Python does",
    Status.REJECTED: "it looks at results only",
    Status.WRONG_DTYPE: "it does not compare dtypes",
    Status.WRONG_VALUE: "it tries the problem's own inputs only, from seeds that are always the same",
}


class Result(EvaluationResult):
    """Correctness and speed of a kernel by each requested protocol. Times are in milliseconds."""

    inlined: ClassVar = ("summary",)
    absent_if_empty: ClassVar = ("environment", "status", "message", "error", "kernelbench", "remark")
    problem: str
    """The id of the problem that the kernel solves."""
    workload: str
    """The workload at which the kernel was checked and timed."""
    kernel: ForPython[Kernel | None] = None
    """None for a file that is not a kernel."""
    evaluation: ForPython[Evaluation | None] = None
    """Evaluation by the strict protocol; the fields of `summary` are also attributes of the result."""
    refusal: ForPython[str] = ""
    """Reason why the file is not a kernel, so that there is no evaluation."""
    result: ForPython[KernelBenchResult | None] = None
    """Result by KernelBench's protocol."""
    tolerance: ForPython[float | None] = None
    """KernelBench's, absolute and relative."""

    @computed
    def environment(self) -> dict[str, str] | None:
        """The device and the versions."""
        return self.evaluation.environment if self.evaluation is not None else None

    @computed
    def summary(self) -> EvaluationSummary | None:
        """The evaluation without samples and log."""
        return self.evaluation.summary() if self.evaluation is not None else None

    @computed_field(alias="error")
    @property
    def refused(self) -> str:
        """Why there is no evaluation."""
        return self.refusal

    @computed
    def kernelbench(self) -> dict[str, Any] | None:
        """KernelBench's result, with its speedup."""
        found = self.result
        return None if found is None else {**found.model_dump(mode="json"), "speedup": found.speedup}

    @computed
    def remark(self) -> str:
        """Reason why the protocols differ; '' if they agree, or if only one was requested."""
        if self.result is None or self.evaluation is None:
            return ""
        strict, other = self.evaluation, self.result
        if strict.ok and other.correctness:
            return _speeds_differ(strict, other)
        if other.correctness:
            said = strict.rejection.rule if strict.rejection else strict.status.value.replace("_", " ")
            why = larger_tolerance(strict, self.tolerance) or _WHY_ACCEPTED.get(strict.status, "it ran through there")
            return f"strict refuses it ({said}), kernelbench accepts it: {why}"
        if strict.ok:
            why = ""
            if other.metadata.get("correctness_issue") == "Output mismatch":
                why = ": it copies no weights, so both constructors must draw the same ones after the same seed"
            return f"strict accepts it, kernelbench does not ({other.reason}){why}"
        return ""

    @property
    def correct(self) -> bool:
        """Whether every requested protocol accepts it."""
        return super().correct and not self.refusal and (self.result is None or self.result.correctness)

    @property
    def next_step(self) -> str:
        """The next call of an agent."""
        if not self.correct:
            return EXPLAIN
        if self.latency_ms is None:
            return "it is correct and was not timed here: time it on a device that its language compiles for"
        return "call profile for the bottleneck; once that is fixed, tune its constants"

    @property
    def failed_kernel(self) -> tuple[Kernel, Evaluation] | None:
        """The kernel and its evaluation, if it is not correct."""
        failed = self.kernel is not None and self.evaluation is not None and not self.evaluation.ok
        return (self.kernel, self.evaluation) if failed else None  # type: ignore[return-value]

    def lines(self) -> Iterator[Any]:
        """The evaluation in words; with KernelBench's verdict a table, and why the protocols differ."""
        if self.evaluation is not None:
            yield Text.from_markup(describe_evaluation(self, self.evaluation))
        if self.result is not None:
            yield comparison_table([self])
            yield from self.remarks()

    def remarks(self) -> Iterator[str]:
        """Lines beneath a table."""
        if self.result is not None and self.result.reason:
            yield f"{self.problem}, kernelbench: {self.result.reason}"
        if self.refusal:
            yield f"{self.problem}, strict: {self.refusal}"
        if self.remark:
            yield f"{self.problem}: {self.remark}"


def describe_evaluation(verdict: Result, evaluation: Evaluation) -> str:
    """One evaluation in a few words, with rich markup."""
    text = f"[bold]{escape(verdict.problem)}[/] ({verdict.workload}): {status_text(evaluation.status)}"
    if evaluation.measurement and evaluation.reference and evaluation.speedup:
        text += (
            f", {evaluation.measurement.median_ms:.3g} ms against {evaluation.reference.median_ms:.3g} ms, "
            f"{escape(str(evaluation.speedup))} against the reference"
        )
        text += ", which computes as PyTorch does by default" if evaluation.default_is_reference else ""
        text += escape(beside_reference(evaluation))
    if evaluation.host_us is not None:
        text += f", the host's work {evaluation.host_us:.3g} us of a call"
    if evaluation.peak_memory_bytes:
        text += f", {gigabytes(evaluation.peak_memory_bytes)} of device memory"
    if evaluation.correctness:
        checked = evaluation.correctness
        text += f", largest error {checked.own_error:.2g} in {checked.checks} check{'s' if checked.checks != 1 else ''}"
        remarks = [checked.beside_start, checked.torch_as_start, checked.less_exact]
        remarks += [checked.special_values, checked.other_strides]
        text += "".join(f"\nremark: {escape(remark)}" for remark in remarks if remark)
    if evaluation.replay is not None and evaluation.replay.depends_on:
        text += f"\nremark: {escape(evaluation.replay.depends_on)}"
    text += "".join(f"\n[yellow]warning:[/] {escape(doubt)}" for doubt in doubts_of(evaluation))
    lines = library_line(evaluation), sanitizer_line(evaluation, all_of_it=True)
    text += "".join(f"\n{escape(line)}" for line in lines if line)
    text += "".join(f"\n{escape(line)}" for line in workload_lines(evaluation.workloads, {}))
    reason = str(evaluation.rejection) if evaluation.rejection else evaluation.message
    return text + (f"\n{escape(reason)}" if reason else "")


def comparison_table(judged: Sequence[Result]) -> Table:
    """One row per kernel and protocol."""
    made = table("problem", "protocol", "verdict", ">ms", ">reference ms", ">speedup")
    for item in judged:
        for protocol, verdict, right, *metrics in _rows(item):
            color = "green" if right else "yellow" if verdict == Status.UNPROVEN else "red"
            shown = ["" if figure is None else f"{figure:.3g}" for figure in metrics]
            speedup = f"{shown[2]}x" if shown[2] else ""
            made.add_row(escape(item.problem), protocol, f"[{color}]{escape(verdict)}[/]", shown[0], shown[1], speedup)
    return made


def _rows(result: Result) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    if result.refusal:
        rows.append(("strict", "no kernel", False, None, None, None))
    if (strict := result.evaluation) is not None:
        verdict = f"rejected: {strict.rejection.rule}" if strict.rejection else strict.status.value
        reference = strict.reference.median_ms if strict.reference else None
        speedup = strict.speedup.ratio if strict.speedup else None
        rows.append(("strict", verdict, strict.ok, strict.latency_ms, reference, speedup))
    if (other := result.result) is not None:
        verdict = "correct" if other.correctness else "incorrect" if other.compiled else "not compiled"
        rows.append(("kernelbench", verdict, other.correctness, other.runtime, other.ref_runtime, other.speedup))
    return rows


def _speeds_differ(strict: Evaluation, other: KernelBenchResult) -> str:
    ours, theirs = strict.speedup, other.speedup
    if ours is None or theirs is None or 1 / FAR_APART <= ours.ratio / theirs <= FAR_APART:
        return ""
    both = f"{ours.ratio:.3g}x or {theirs:.3g}x"
    if strict.contention is not None:
        return f"{both}: other processes disturbed the timing"
    tf32 = ", and TF32 where torch has it on" if strict.environment.get("tf32") == "off" else ""
    return f"{both}: strict compares medians, timed interleaved; kernelbench means, with gradients on{tf32}"


@dataclass(frozen=True)
class Protocols:
    """The protocols by which kernels are judged."""

    strict: bool
    kernelbench: KernelBenchSettings | None

    @property
    def in_words(self) -> str:
        """Return the names of the protocols: 'strict, kernelbench'."""
        return ", ".join([*(["strict"] if self.strict else []), *(["kernelbench"] if self.kernelbench else [])])


def protocols_of(options: Options) -> Protocols:
    """Return the requested protocols."""
    precision, trials = options.kernelbench_precision or KernelBenchPrecision.FP32, options.perf_trials or PERF_TRIALS
    settings = KernelBenchSettings(precision=precision, perf_trials=trials)
    return Protocols(options.strict, settings if options.kernelbench else None)


@dataclass(frozen=True)
class Plan(command.Plan):
    """One kernel, and the place of its result."""

    job: Job
    protocols: Protocols
    run_folder: RunFolder | None = field(metadata=command.NOT_SHOWN)
    sample: Sample | None = field(metadata=command.NOT_SHOWN)
    open_evaluator: OpenEvaluator = field(metadata=command.NOT_SHOWN)


@dataclass(frozen=True)
class EvaluationSubject:
    """The subject of a verdict: a kernel, or another file, on which only KernelBench has a verdict."""

    problem: TorchProblem
    source: str
    job: Job | None
    refusal: str = ""

    @property
    def backend(self) -> str:
        """KernelBench's name for the language."""
        return str(self.job.kernel.language) if self.job else INLINE


class KernelJudge:
    """Judges kernels with one evaluator. KernelBench's protocol uses its processes."""

    def __init__(self, protocols: Protocols, evaluator: SeveralWorkloads[LocalEvaluator | RemoteEvaluator]) -> None:
        self._strict, self._evaluator, self._kernelbench = protocols.strict, evaluator, None
        self._tolerance = protocols.kernelbench.precision.tolerance if protocols.kernelbench else None
        if protocols.kernelbench is not None:
            assert isinstance(evaluator.first, LocalEvaluator)
            self._kernelbench = KernelBench(evaluator.first.processes, protocols.kernelbench)

    def verdict(self, subject: EvaluationSubject) -> Result:
        """Judge one kernel."""
        problem, job, evaluation, found = subject.problem, subject.job, None, None
        if self._strict and job is not None:
            (evaluation,) = self._evaluator.evaluate(job.problem, job.kernel, [Config()])
        if self._kernelbench is not None:
            found = self._kernelbench.evaluate(problem, subject.source, subject.backend)
        return Result(
            problem=problem.id,
            workload=problem.workload,
            kernel=job.kernel if job else None,
            evaluation=evaluation,
            refusal=subject.refusal if self._strict else "",
            result=found,
            tolerance=self._tolerance,
        )


def strict_result(verdict: Result) -> StrictResult | None:
    """Return the strict verdict in the form of a run folder; None if it was not requested."""
    found = verdict.evaluation
    if found is None:
        return StrictResult(status=verdict.refusal) if verdict.refusal else None
    speedup = found.speedup.ratio if found.speedup else None
    return StrictResult(status=found.status.value, speedup=speedup, contention=found.contention)
