"""Recorded workloads among problems and kernels: a Definition is a problem, a Solution a kernel."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from ..core import KernelError, PythonKernel, TorchProblem
from .flashinfer_trace.dataset import TraceDataset, is_trace_dataset, read_record
from .flashinfer_trace.problem import RecordedProblem, recorded_problem
from .flashinfer_trace.schema import Solution, Trace, Workload
from .flashinfer_trace.solution import backend_of, kernel_of, solution_of
from .flashinfer_trace.trace import invalid_reference, trace_of
from .names import is_file, nearest

__all__ = [
    "DefinitionFile",
    "RecordedProblem",
    "SolutionFile",
    "Trace",
    "TraceDataset",
    "Workload",
    "find_solution",
    "invalid_reference",
    "is_trace_dataset",
    "list_definitions",
    "list_solutions",
    "names_solution",
    "solution_of",
    "trace_of",
]


@dataclass(frozen=True)
class DefinitionFile:
    """A Definition of a dataset, as a problem."""

    id: str
    dataset: TraceDataset

    @property
    def name(self) -> str:
        """The same as its id."""
        return self.id

    def read(self) -> TorchProblem:
        """Read its Workloads. Raises `ProblemError` for a broken one, or if there are none."""
        return recorded_problem(self.dataset, self.id)


@dataclass(frozen=True)
class SolutionFile:
    """A Solution of a dataset, as a kernel."""

    solution: Solution
    dataset: TraceDataset

    @property
    def problem(self) -> str:
        """The Definition's name."""
        return self.solution.definition

    def read(self) -> PythonKernel:
        """Make one kernel file of it; raises `KernelError` for a Solution in another language than ours."""
        return kernel_of(self.solution, self.dataset.definitions[self.solution.definition])


def list_definitions(dataset: Path) -> list[DefinitionFile]:
    """Return a dataset's Definitions by name; raises `ProblemError` for a broken file."""
    read = TraceDataset.read(dataset)
    return [DefinitionFile(name, read) for name in sorted(read.definitions)]


def list_solutions(dataset: Path, backend: str) -> list[SolutionFile]:
    """Return a dataset's Solutions for a backend, by Definition and name."""
    read = TraceDataset.read(dataset)
    files = [SolutionFile(solution, read) for solution in read.solutions.values()]
    return sorted(
        (file for file in files if backend_of(file.solution) == backend),
        key=lambda file: (file.problem, file.solution.name),
    )


def names_solution(reference: str, dataset: Path | None) -> bool:
    """Return whether a kernel is looked for among a dataset's Solutions: it is not a Python file."""
    return dataset is not None and not reference.endswith(".py") and is_trace_dataset(dataset)


def find_solution(reference: str, backend: str, dataset: Path) -> SolutionFile:
    """Return the Solution of a name or a JSON file; for a Definition's name, the fastest one for a backend.

    Raises `KernelError`, which names the nearest Solutions, when there is none.
    """
    read = TraceDataset.read(dataset)
    if is_file(Path(reference)):
        solution = read_record(Solution, Path(reference))
        if solution.definition not in read.definitions:
            raise KernelError(f"{reference}: definition: {dataset} has no Definition {solution.definition}")
        if read.solutions.get(solution.name) != solution:
            raise KernelError(f"{reference}: Traces name a Solution of {dataset}; put the file into its solutions/")
        return SolutionFile(solution, read)
    if reference in read.solutions:
        return SolutionFile(read.solutions[reference], read)
    if reference in read.definitions:
        return _fastest(read, reference, backend)
    known = [*read.solutions, *read.definitions]
    raise KernelError(f"no Solution or Definition {reference!r} in {dataset}{nearest(reference, known)}")


def _fastest(dataset: TraceDataset, definition: str, backend: str) -> SolutionFile:
    """Return the Solution with the largest geometric mean of the speedups in its Traces; without any, by name."""
    files = [
        SolutionFile(solution, dataset) for solution in dataset.solutions.values() if solution.definition == definition
    ]
    fitting = {file.solution.name: file for file in files if backend_of(file.solution) == backend}
    if not fitting:
        raise KernelError(
            f"Definition {definition} of {dataset.root} has no Solution for {backend}; add one to solutions/, or give "
            f"a kernel file and `problem` {definition}"
        )
    speedups: dict[str, list[float]] = {name: [] for name in sorted(fitting)}
    for trace in dataset.traces(definition):
        timed = trace.evaluation.performance if trace.evaluation else None
        if timed is not None and timed.speedup_factor > 0 and trace.solution in speedups:
            speedups[trace.solution].append(math.log(timed.speedup_factor))
    best = max(speedups, key=lambda name: statistics.fmean(speedups[name]) if speedups[name] else -math.inf)
    return fitting[best]
