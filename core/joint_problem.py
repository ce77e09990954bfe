"""One problem at several workloads, judged together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from .dynamic_size import FreeSize
from .problem import DEFAULT_WORKLOAD
from .torch_problem import TorchProblem

SEPARATOR = " | "


@dataclass(frozen=True)
class JointProblem(TorchProblem):
    """A problem at several workloads. A kernel's time is the geometric mean over all workloads.

    Its own sizes are those of the last workload. An evaluator for one workload takes one of `members`.
    """

    members: Mapping[str, TorchProblem] = field(default_factory=dict)
    """The problem at each workload, by name."""
    free: FreeSize | None = None
    """The free size, if there is one: kernels must be correct in its whole range, of which the workloads are values."""

    @classmethod
    def of_all(cls, problem: TorchProblem, most: int | None = None) -> TorchProblem:
        """Return the problem at all its named workloads; at its only one, or unchanged, if it names fewer than two.

        At most `most` of them (at least 2) are taken, spread evenly over their order, including both ends.
        """
        named = [name for name in problem.workloads if name != DEFAULT_WORKLOAD]
        if most is not None and len(named) > most:
            named = [named[round(i * (len(named) - 1) / (most - 1))] for i in range(most)]
        if len(named) < 2:
            return problem.at(next(iter(named), DEFAULT_WORKLOAD))
        return cls._of({name: problem.at(name) for name in named})

    @classmethod
    def in_range(cls, problem: TorchProblem, free: FreeSize, count: int = 5) -> JointProblem:
        """Return the problem at `count` values of a range, each about the same ratio from the next, both ends included.

        Other sizes stay. Raises `ProblemError` for a constant that the problem does not have.
        """
        ratio = (free.high / free.low) ** (1 / (count - 1))
        between = {1 << round(math.log2(free.low * ratio**place)) for place in range(1, count - 1)}
        middle = 1 << round(math.log2(free.low * ratio ** (count // 2)))
        between = {value + (value == middle) for value in between}  # one that is no multiple of a block
        values = sorted({free.low, free.high, *(value for value in between if free.low < value < free.high)})
        rows = [(f"{free.name}={value}", {**problem.sizes, free.name: value}) for value in values]
        return replace(cls._of({name: problem.resized(name, sizes) for name, sizes in rows}), free=free)

    @classmethod
    def _of(cls, members: Mapping[str, TorchProblem]) -> Self:
        last = members[list(members)[-1]]
        values = {name: getattr(last, name) for name in ("id", "name", "source", "path", "tolerances", "package")}
        return cls(**values, workload=SEPARATOR.join(members), sizes=last.sizes, members=members)

    def tolerating(self, absolute: float | None, relative: float | None) -> Self:
        """Return the problem with these tolerances at all workloads."""
        members = {name: member.tolerating(absolute, relative) for name, member in self.members.items()}
        return replace(super().tolerating(absolute, relative), members=members)

    @property
    def sizes_key(self) -> str:
        """The sizes of all workloads, as a key."""
        if not self.members:
            return super().sizes_key
        return repr([(name, sorted(member.sizes.items())) for name, member in self.members.items()])

    def files_at(self, sizes: Mapping[str, Any]) -> Mapping[str, Path]:
        """Return the files that the problem reads at these sizes."""
        return next(iter(self.members.values())).files_at(sizes) if self.members else {}

    def resized(self, workload: str, sizes: Mapping[str, Any]) -> Self:
        """Return the problem at one workload only."""
        return replace(super().resized(workload, sizes), members={})
