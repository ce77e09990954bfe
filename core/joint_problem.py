"""One problem at several workloads, judged together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from .problem import DEFAULT_WORKLOAD
from .torch_problem import TorchProblem

SEPARATOR = " | "


@dataclass(frozen=True)
class JointProblem(TorchProblem):
    """A problem at each of several workloads: a kernel's time is the geometric mean of its times at all of them.

    By itself it has the sizes of the last one. An evaluator for one workload takes `members`.
    """

    together: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The workloads by name, with their sizes."""

    @classmethod
    def of_all(cls, problem: TorchProblem) -> TorchProblem:
        """Return the problem at all the workloads that it names; at its only one, or as it is, where it names fewer."""
        named = {name: sizes for name, sizes in problem.workloads.items() if name != DEFAULT_WORKLOAD}
        if len(named) < 2:
            return problem.at(next(iter(named), DEFAULT_WORKLOAD))
        values = {name: getattr(problem, name) for name in ("id", "name", "source", "path", "tolerances", "withheld")}
        last = list(named.values())[-1]
        return cls(**values, workload=SEPARATOR.join(named), sizes=last, together=named)

    @cached_property
    def members(self) -> dict[str, TorchProblem]:
        """The problem at each workload."""
        values = {name: getattr(self, name) for name in ("id", "name", "source", "path", "tolerances", "withheld")}
        return {name: TorchProblem(**values, workload=name, sizes=sizes) for name, sizes in self.together.items()}

    @property
    def sizes_key(self) -> str:
        """Those of all workloads."""
        if not self.together:
            return super().sizes_key
        return repr([(name, sorted(sizes.items())) for name, sizes in self.together.items()])

    def resized(self, workload: str, sizes: Mapping[str, Any]) -> Self:
        """Return the problem at one workload only."""
        return replace(super().resized(workload, sizes), together={})
