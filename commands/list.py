"""List kernels and problems without measuring them; `list-slow` measures them.

Exit codes: 0 listed, 1 there are none, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.markup import escape

from ..core.events import Emit
from ..corpus import list_kernels, list_operator_kernels, list_operators, list_problems
from ..corpus.recorded import is_trace_dataset, list_solutions
from ..runtime import command, result
from ..runtime.options.groups import Backend
from ..runtime.options.option import Options as BaseOptions
from ..runtime.options.option import option
from ..runtime.runtime import Runtime

AGENTS = ("backend",)
EXAMPLES = ("list", "list --backend triton", "list --dataset ~/KernelBench --json")


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """List kernels and problems."""

    backend: Backend | None = option(None, "Only problems with a kernel of this backend; by default all.")
    dataset: Path | None = option(
        None,
        "Source of the problems: a KernelBench checkout, or a flashinfer-trace dataset; by default the shipped ones.",
        trusted=True,
    )


@dataclass(frozen=True)
class Plan(command.Plan):
    """The problems to list."""

    backend: Backend | None
    dataset: Path | None


class ListedProblem(BaseModel):
    """A problem, and its kernels."""

    problem: str
    """Id of the problem, such as level2/2_10, which also names its shipped kernel."""
    name: str
    """KernelBench's name of it."""
    kernels: dict[str, list[str]]
    """Names of kernels by backend: the problem's id for shipped ones, those of Solutions in a dataset of these."""


class Result(result.Result):
    """Problems, each with its kernels."""

    problems: tuple[ListedProblem, ...]

    @property
    def exit_code(self) -> int:
        """1 if there are none."""
        return 0 if self.problems else 1

    def lines(self) -> Iterator[Any]:
        """A table, and a command that uses a name."""
        rows = result.table("problem", "name", "kernels", plain=True)
        for found in self.problems:
            shown = [
                f"{backend} ({', '.join(names)})" if names != [found.problem] else backend
                for backend, names in found.kernels.items()
            ]
            rows.add_row(*map(escape, (found.problem, found.name, ", ".join(shown) or "none")))
        yield rows
        have = sum(1 for found in self.problems if found.kernels)
        yield f"{len(self.problems)} problems, {have} with a kernel; `kernelwright evaluate PROBLEM` measures one"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Take the options: `run` reads the folders."""
    return Plan.of(options)


def run(plan: Plan, emit: Emit) -> Result:
    """Read the names of files."""
    kernels: dict[str, dict[str, list[str]]] = {}
    for backend in [plan.backend] if plan.backend else Backend:
        for problem, name in _kernels(backend, plan.dataset):
            kernels.setdefault(problem, {}).setdefault(backend.value, []).append(name)
    names = {problem.id: problem.name for problem in list_problems(plan.dataset)}
    if plan.dataset is None:
        names |= {problem: problem.rpartition("/")[2] for problem in list_operators()}
    listed = [ListedProblem(problem=key, name=name, kernels=kernels.get(key, {})) for key, name in names.items()]
    return Result(problems=tuple(found for found in listed if found.kernels or plan.backend is None))


def _kernels(backend: Backend, dataset: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the problem and the name of each kernel."""
    if dataset is not None and is_trace_dataset(dataset):
        yield from ((file.problem, file.solution.name) for file in list_solutions(dataset, backend.value))
        return
    for file in [*list_kernels(backend.value), *list_operator_kernels(backend.value)]:
        yield file.problem, file.problem
