"""`evaluate` a Solution of a dataset of recorded workloads: on every Workload, each with its Trace written at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core import Config, Evaluation, OptionError, ProblemError
from ..core.events import Emit, progress
from ..corpus import find_kernel
from ..corpus.recorded import SolutionFile, Workload, invalid_reference, names_solution, trace_of
from ..evaluators.local import LocalEvaluator
from ..evaluators.remote.evaluator import RemoteEvaluator
from ..evaluators.remote.machines import Remote
from .devices import choose_device
from .evaluators import joined, local_evaluator, remote_evaluator
from .jobs import Job, choose_backend, find_job
from .options.evaluate import EvaluateOptions
from .verdicts import ProtocolVerdicts


@dataclass(frozen=True)
class WorkloadVerdict:
    """A Solution on one Workload."""

    workload: str
    evaluation: Evaluation | None
    """None where the reference failed."""
    error: str = ""
    """Why it did."""
    traced: Path | None = None
    """The file that its Trace was appended to; None for a kernel that was checked but not timed."""


@dataclass(frozen=True)
class SolutionResult:
    """A Solution on the Workloads of its Definition."""

    solution: str
    definition: str
    rows: tuple[WorkloadVerdict, ...]

    @property
    def correct(self) -> bool:
        """Whether it is correct on every Workload."""
        return all(row.evaluation is not None and row.evaluation.ok for row in self.rows)

    def record(self) -> dict[str, Any]:
        """For --json."""
        results = []
        for row in self.rows:
            found = ProtocolVerdicts(self.definition, row.workload, row.evaluation, row.error).record()
            results.append({**found, "trace": str(row.traced) if row.traced else None})
        return {"solution": self.solution, "definition": self.definition, "results": results}


def is_solution(options: EvaluateOptions) -> bool:
    """Return whether the kernel is a Solution of a dataset."""
    return options.kernel is not None and names_solution(options.kernel, options.dataset)


def run_evaluate_solution(options: EvaluateOptions, emit: Emit) -> SolutionResult:
    """Evaluate `options.kernel` on all Workloads, or on the one of `options.workload`."""
    if not is_solution(options):
        raise OptionError("`kernel` is no Solution", "name one of a flashinfer-trace `dataset`")
    if options.kernelbench:
        raise OptionError("KernelBench's protocol has no Traces", "leave `protocol` and `run_folder` out")
    with joined(options) as remote:
        device = choose_device(options, remote)
        assert options.kernel is not None
        file = find_kernel(options.kernel, choose_backend(options, device), options.dataset)
        assert isinstance(file, SolutionFile)
        wanted = [item for item in file.dataset.workloads(file.problem) if options.workload in (None, item.uuid)]
        if not wanted:
            known = ", ".join(item.uuid for item in file.dataset.workloads(file.problem)) or "none"
            raise OptionError(f"{file.problem} has no Workload {options.workload}", f"it has {known}")
        jobs = [find_job(replace(options, workload=item.uuid), options.kernel, device, remote) for item in wanted]
        rows = []
        with _evaluator(device, remote, options) as evaluator, progress(emit, "evaluating", len(jobs)) as step:
            for job, workload in zip(jobs, wanted, strict=True):
                rows.append(_row(job, workload, file, evaluator))
                step(workload.uuid)
    return SolutionResult(file.solution.name, file.problem, tuple(rows))


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


@contextlib.contextmanager
def _evaluator(
    device: str, remote: Remote | None, options: EvaluateOptions
) -> Iterator[LocalEvaluator | RemoteEvaluator]:
    if remote is not None:
        yield remote_evaluator(remote, options)
        return
    with local_evaluator(device, options) as evaluator:
        yield evaluator
