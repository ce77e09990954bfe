"""Evaluates a Solution of a dataset on every recorded Workload, and writes each Trace at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.markup import escape

from ...core import Config, Evaluation, OptionError, ProblemError
from ...core.events import Emit, progress
from ...corpus import find_kernel
from ...corpus.recorded import SolutionFile, Workload, invalid_reference, names_solution, trace_of
from ...evaluators.local import LocalEvaluator
from ...evaluators.remote.evaluator import RemoteEvaluator
from ...runtime import command, result
from ...runtime.jobs import Job, choose_backend
from ...runtime.result import status_text
from ...runtime.runtime import OpenEvaluator, Runtime
from . import Options
from .verdict import Result


@dataclass(frozen=True)
class SolutionPlan(command.Plan):
    """A Solution and its Workloads."""

    jobs: list[Job]
    """One for each Workload."""
    workloads: list[Workload] = field(metadata=command.NOT_SHOWN)
    file: SolutionFile = field(metadata=command.NOT_SHOWN)
    open_evaluator: OpenEvaluator = field(metadata=command.NOT_SHOWN)


@dataclass(frozen=True)
class WorkloadVerdict:
    """A Solution on one Workload."""

    workload: str
    evaluation: Evaluation | None
    """None if the reference failed."""
    error: str = ""
    """Message of the reference's failure."""
    traced: Path | None = None
    """The file that its Trace was appended to; None for a kernel that was checked but not timed."""

    def to_json(self, definition: str) -> dict[str, Any]:
        """The verdict as plain data."""
        found = Result(problem=definition, workload=self.workload, evaluation=self.evaluation, refusal=self.error)
        return {**found.to_json(), "trace": str(self.traced) if self.traced else None}


class SolutionResult(result.Result):
    """A Solution on the Workloads of its Definition."""

    solution: str
    definition: str
    rows: result.ForPython[tuple[WorkloadVerdict, ...]]

    @property
    def correct(self) -> bool:
        """Whether it is correct on every Workload."""
        return all(row.evaluation is not None and row.evaluation.ok for row in self.rows)

    @result.computed
    def results(self) -> list[dict[str, Any]]:
        """The verdict on each Workload, and the file of its Trace."""
        return [row.to_json(self.definition) for row in self.rows]

    @property
    def exit_code(self) -> int:
        """1 if it is not correct on every Workload."""
        return 0 if self.correct else 1

    def lines(self) -> Iterator[Any]:
        """A table, the reasons of failures, and the files of the Traces."""
        title = escape(f"{self.solution} for {self.definition}")
        table = result.table("workload", "verdict", ">ms", ">reference ms", ">speedup", title=title)
        for row in self.rows:
            table.add_row(escape(row.workload), *_cells(row))
        yield table
        for row in self.rows:
            found = row.evaluation
            if (reason := row.error if found is None else str(found.rejection or found.message)) != "":
                yield f"{row.workload}: {reason}"
        written = [row.traced for row in self.rows if row.traced is not None]
        if written:
            yield f"traces: {len(written)} in {written[0]}"


def is_solution(options: Options) -> bool:
    """Return whether the kernel is a Solution of a dataset."""
    return options.kernel is not None and names_solution(options.kernel, options.dataset)


def plan(options: Options, runtime: Runtime) -> SolutionPlan:
    """Find the Solution and its Workloads, all or `options.workload`."""
    if not is_solution(options):
        raise OptionError("`kernel` is not a Solution", "name one of a flashinfer-trace `dataset`")
    if options.kernelbench:
        raise OptionError("KernelBench's protocol has no Traces", "leave `protocol` and `run_folder` out")
    device = runtime.device(options)
    assert options.kernel is not None
    file = find_kernel(options.kernel, choose_backend(options, device), options.dataset)
    assert isinstance(file, SolutionFile)
    wanted = [item for item in file.dataset.workloads(file.problem) if options.workload in (None, item.uuid)]
    if not wanted:
        known = ", ".join(item.uuid for item in file.dataset.workloads(file.problem)) or "none"
        raise OptionError(f"{file.problem} has no Workload {options.workload}", f"it has {known}")
    jobs = [runtime.job(replace(options, workload=item.uuid), options.kernel, device) for item in wanted]
    return SolutionPlan(jobs, wanted, file, runtime.evaluator(device, options))


def run(plan: SolutionPlan, emit: Emit) -> SolutionResult:
    """Evaluate it on each Workload, and append the Trace."""
    rows, file = [], plan.file
    with plan.open_evaluator() as evaluator, progress(emit, "evaluating", len(plan.jobs)) as step:
        for job, workload in zip(plan.jobs, plan.workloads, strict=True):
            rows.append(_row(job, workload, file, evaluator))
            step(workload.uuid)
    return SolutionResult(solution=file.solution.name, definition=file.problem, rows=tuple(rows))


def _row(
    job: Job, workload: Workload, file: SolutionFile, evaluator: LocalEvaluator | RemoteEvaluator
) -> WorkloadVerdict:
    sol, now = file.dataset.is_sol(file.problem), datetime.now(UTC).isoformat()
    named = (file.problem, workload, file.solution.name)
    try:
        (evaluation,) = evaluator.evaluate(job.problem, job.kernel, [Config()])
    except ProblemError as error:
        trace = invalid_reference(*named, str(error), job.label, now) if sol else None
        return WorkloadVerdict(workload.uuid, None, str(error), file.dataset.add_trace(trace) if trace else None)
    found = trace_of(*named, evaluation, now, sol)
    return WorkloadVerdict(workload.uuid, evaluation, "", file.dataset.add_trace(found) if found else None)


def _cells(row: WorkloadVerdict) -> tuple[str, ...]:
    found = row.evaluation
    if found is None:
        return ("[red]reference failed[/]", "", "", "")
    verdict = status_text(found.status)
    if found.speedup is None or found.reference is None:
        return (verdict, "", "", "")
    return (verdict, f"{found.latency_ms:.4g}", f"{found.reference.median_ms:.4g}", f"{found.speedup.ratio:.3f}x")
