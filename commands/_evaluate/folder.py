"""Evaluates every kernel in a KernelBench run folder that has no result yet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text

from ...core import DEFAULT_WORKLOAD, KernelError, OptionError, TorchProblem
from ...core.events import Emit, progress
from ...corpus import find_problem
from ...evaluators.kernelbench.result import THRESHOLDS, fast_p
from ...evaluators.kernelbench.run_folder import RunFolder, Sample
from ...runtime import command, result
from ...runtime.evaluators import at_workloads
from ...runtime.runtime import OpenLocal, Runtime
from . import Options
from .verdict import EvaluationSubject, KernelJudge, Protocols, Result, comparison_table, protocols_of, strict_result


@dataclass(frozen=True)
class FolderPlan(command.Plan):
    """The kernels of a run folder."""

    run_folder: Path
    device: str
    protocols: Protocols
    subjects: Mapping[Sample, EvaluationSubject] = field(metadata=command.NOT_SHOWN)
    """The kernels in the folder. Kernels that have a result when their turn comes are skipped."""
    sample_id: int
    """Sample number of the kernels that fast_p counts."""
    open_evaluator: OpenLocal = field(metadata=command.NOT_SHOWN)

    def to_json(self) -> dict[str, Any]:
        """Return the plan with the files."""
        return {**super().to_json(), "kernels": [sample.file_name for sample in self.subjects]}


class FolderResult(result.Result):
    """The results of a run folder."""

    absent_if_empty: ClassVar = ("kernelbench_fast_p",)
    verdicts: result.ForPython[tuple[Result, ...]]
    """Verdicts on kernels without an earlier result."""
    speedups: result.ForPython[Mapping[int, float | None]]
    """KernelBench's speedups by problem number; None for a wrong kernel."""
    strict_speedups: result.ForPython[Mapping[int, float | None] | None] = None
    """Speedups of the strict protocol by problem number, None for an unproven or disturbed kernel. None without the
    protocol."""

    @property
    def counted(self) -> Mapping[int, float | None]:
        """The speedups that count, which are the strict ones if both protocols were requested."""
        return self.speedups if self.strict_speedups is None else self.strict_speedups

    @property
    def correct(self) -> bool:
        """Whether every evaluated kernel is correct by every requested protocol."""
        return all(verdict.correct for verdict in self.verdicts)

    @result.computed
    def results(self) -> list[dict[str, Any]]:
        """The verdicts."""
        return [verdict.to_json() for verdict in self.verdicts]

    @result.computed
    def problems(self) -> int:
        """Number of problems with a kernel."""
        return len(self.speedups)

    @result.computed
    def fast_p(self) -> dict[str, float]:
        """Fraction of problems with a correct kernel faster than each threshold."""
        return _shares(self.counted)

    @result.computed
    def kernelbench_fast_p(self) -> dict[str, float] | None:
        """`fast_p` by KernelBench's own verdicts, if `fast_p` itself uses strict ones."""
        return None if self.strict_speedups is None else _shares(self.speedups)

    @property
    def exit_code(self) -> int:
        """1 if a kernel is not correct."""
        return 0 if self.correct else 1

    @property
    def warnings(self) -> list[str]:
        """Kernels whose timing was disturbed."""
        disturbed = [
            item.problem for item in self.verdicts if item.evaluation and item.evaluation.contention is not None
        ]
        if not disturbed:
            return []
        names = ", ".join(disturbed)
        return [
            f"other processes disturbed {names}: the strict speedup is not counted; the same command measures it again"
        ]

    def lines(self) -> Iterator[Any]:
        """A table, remarks on its rows, and fast_p."""
        if self.verdicts:
            yield comparison_table(self.verdicts)
        for verdict in self.verdicts:
            yield from verdict.remarks()
        if self.strict_speedups is None:
            yield Text(f"{describe_fast_p(self.speedups)} (by kernelbench alone, which proves no speedup)")
        else:
            yield Text(f"{describe_fast_p(self.strict_speedups)} (strict)")
            yield Text(f"{describe_fast_p(self.speedups)} (kernelbench)")


def plan(options: Options, runtime: Runtime) -> FolderPlan:
    """Find the kernels. A wrong dataset must be reported now, not after an hour."""
    if options.run_folder is None:
        raise OptionError("there is nothing to evaluate", "give `kernel`, or `run_folder` for all kernels in it")
    device = runtime.device(options)
    folder = RunFolder(options.run_folder)
    samples = folder.samples()
    problems = {sample.problem_id: find_problem(sample.problem_id, options.dataset) for sample in samples}
    subjects = {
        sample: _subject(folder.kernel(sample), problems[sample.problem_id].read(), options, device, runtime)
        for sample in samples
    }
    number, opened = options.sample_id or 0, runtime.local_evaluator(device, options)
    return FolderPlan(options.run_folder, device, protocols_of(options), subjects, number, opened)


def _subject(path: Path, problem: TorchProblem, options: Options, device: str, runtime: Runtime) -> EvaluationSubject:
    try:
        job = runtime.job(replace(options, kernel=str(path), problem=problem.id), str(path), device)
    except KernelError as error:
        source = path.read_text(errors="replace")
        return EvaluationSubject(problem.at(options.workload or DEFAULT_WORKLOAD), source, None, str(error))
    return EvaluationSubject(job.problem, job.kernel.source, job)


def run(plan: FolderPlan, emit: Emit) -> FolderResult:
    """Evaluate the kernels, and store each result at once."""
    folder, strict = RunFolder(plan.run_folder), plan.protocols.strict
    found: list[Result] = []
    with contextlib.ExitStack() as stack, progress(emit, "evaluating", len(plan.subjects)) as step:
        judge = KernelJudge(plan.protocols, at_workloads(plan.open_evaluator, stack))
        for sample, subject in plan.subjects.items():
            # Another command may work on the same folder.
            if not folder.has(sample) or (strict and not folder.has_strict(sample)):
                verdict = judge.verdict(subject)
                assert verdict.result is not None
                folder.store(sample, subject.problem, verdict.result, strict_result(verdict))
                found.append(verdict)
            step(sample.file_name)
    counted = folder.strict_speedups(plan.sample_id) if strict else None
    speedups = folder.speedups(plan.sample_id)
    return FolderResult(verdicts=tuple(found), speedups=speedups, strict_speedups=counted)


def _shares(speedups: Mapping[int, float | None]) -> dict[str, float]:
    return {str(p): fast_p(list(speedups.values()), p) for p in THRESHOLDS}


def describe_fast_p(speedups: Mapping[int, float | None]) -> str:
    """Describe fast_p: 'fast_p over 12 problems: 0: 1.00, 0.5: 0.92, ...'."""
    values: Sequence[float | None] = list(speedups.values())
    parts = ", ".join(f"{p:g}: {fast_p(values, p):.2f}" for p in THRESHOLDS)
    return f"fast_p over {len(speedups)} problem{'s' if len(speedups) != 1 else ''}: {parts}"
