"""A faster kernel of a recorded workload goes back into its dataset, as a Solution."""

from __future__ import annotations

from pathlib import Path

from ..core import Evaluation, JointProblem, Kernel, KernelError, PythonKernel
from ..core.events import Emit, Warned
from ..corpus.recorded import RecordedProblem, TraceDataset, solution_of
from .jobs import Job

AUTHOR = "kernelwright"


def save_solution(dataset: Path | None, job: Job, kernel: Kernel, best: Evaluation, emit: Emit) -> Path | None:
    """Write a kernel as a Solution, and return its path; None where the problem is not a recorded one.

    A language that the dataset has no name for is a warning: the kernel file is there all the same.
    """
    judged = list(job.problem.members.values()) if isinstance(job.problem, JointProblem) else [job.problem]
    recorded = all(isinstance(item, RecordedProblem) for item in judged)
    if dataset is None or not recorded or not isinstance(kernel, PythonKernel):
        return None
    assert best.speedup is not None
    traces = TraceDataset.read(dataset)
    device = best.environment.get("device", job.label)
    description = (
        f"{best.speedup.ratio:.3f} times as fast as the reference on {device}, "
        f"for the Workload{'s' if len(judged) > 1 else ''} {', '.join(item.workload for item in judged)}; "
        f"made from {job.kernel.name}"
    )
    try:
        definition = traces.definitions[job.problem.id]
        return traces.add_solution(
            solution_of(kernel, definition, AUTHOR, device, description, traces.is_sol(definition.name))
        )
    except KernelError as error:
        emit(Warned(f"no Solution is written: {error}"))
        return None
