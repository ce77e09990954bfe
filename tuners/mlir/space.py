"""The space of an operation's schedules: derived from the operation and the processor, or from a user's ranges."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...core import Config, Operation, SearchSpace, SpaceError, Target, Value
from . import cpu_levels, cuda_levels
from .levels import Levels
from .machine import Machine
from .roles import Roles

Ranges = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Schedule:
    """The parameters of one operation's schedule, and the text that they are bound into."""

    operation: Operation
    values: Mapping[str, tuple[int, ...]]
    constraints: tuple[str, ...]
    first: tuple[Config, ...]
    """Likely configs, the likeliest first."""
    info: str
    """`compilation_info` in MLIR, with marks."""
    prefix: str = ""
    """Stands before the parameters' names where several operations are scheduled: `matmul_0_`."""
    remarks: tuple[str, ...] = ()

    @property
    def space(self) -> SearchSpace:
        """The space of this operation's parameters alone."""
        return SearchSpace.of(self.values, self.constraints, {}, **self.first[0])

    def plain(self, config: Mapping[str, Value]) -> dict[str, int]:
        """Return this operation's parameters of a config, without the prefix."""
        names = [name for name in self.values if name in config]
        return {name.removeprefix(self.prefix): int(config[name]) for name in names}


def schedule(operation: Operation, machine: Machine, ranges: Ranges | None = None, prefix: str = "") -> Schedule:
    """Return how an operation can be scheduled on a processor.

    With `ranges`, the parameters that these name take their values, and the others keep their likeliest. Raises
    `SpaceError` where no config is left.
    """
    roles = Roles.of(operation)
    levels = (cpu_levels if machine.target is Target.CPU else cuda_levels).levels(roles, machine)
    if ranges:
        constraints = levels.constraints
        values, remarks = _within(levels, ranges, operation)
    else:
        constraints = levels.constraints + levels.preferences
        values, remarks = dict(levels.values), []
    space = _space_of(values, constraints, operation)
    first = _nearest(levels.likely, space)
    rename = _renaming(levels.values, prefix)
    return Schedule(
        operation,
        {prefix + name: tuple(v) for name, v in values.items()},
        tuple(map(rename, constraints)),
        tuple(Config({prefix + name: value for name, value in one.items()}) for one in first),
        rename(levels.info),
        prefix,
        tuple(remarks),
    )


def schedules(operations: Sequence[Operation], machine: Machine, ranges: Ranges | None = None) -> list[Schedule]:
    """Return how each operation of a function can be scheduled; where there are several their names are prefixes."""
    alone = len(operations) == 1
    return [schedule(one, machine, ranges, "" if alone else f"{one.name}_") for one in operations]


def _within(levels: Levels, ranges: Ranges, operation: Operation) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Return the values that the ranges give, within the operation's shape, and what was left out of them."""
    remarks = [f"{name} has no meaning for {operation.name} here" for name in ranges if name not in levels.values]
    values: dict[str, tuple[int, ...]] = {
        name: (_close(v, levels.likely[0].get(name, v[0])),) for name, v in levels.values.items()
    }
    for name, wanted in ranges.items():
        if name not in levels.values:
            continue
        most = levels.extents.get(name)
        fitting = tuple(value for value in dict.fromkeys(wanted) if most is None or value <= most)
        if too_large := [value for value in wanted if value not in fitting]:
            remarks.append(f"{name} = {too_large} is left out of {operation.name}: the loop has {most} steps")
        values[name] = fitting or (_close(levels.values[name], most or 1),)
    return values, remarks


def _space_of(values: Ranges, constraints: Sequence[str], operation: Operation) -> SearchSpace:
    try:
        return SearchSpace.of(values, constraints)
    except SpaceError as error:
        raise SpaceError(f"{operation.name} ({operation.shape}): {error}") from None


def _nearest(likely: Iterable[Mapping[str, int]], space: SearchSpace) -> list[Config]:
    """Return members near the likely ones; the space's default where none is."""
    found: dict[Config, None] = {}
    for one in likely:
        config = Config(
            {p.name: _close([int(v) for v in p.values], one.get(p.name, int(p.values[0]))) for p in space.parameters}
        )
        if config in space:
            found[config] = None
    return list(found) or [space.default]


def _close(values: Sequence[int], wanted: int) -> int:
    """Return the value whose ratio to the wanted one is nearest to 1; a zero counts as a half."""
    return min(values, key=lambda value: abs(math.log((value or 0.5) / (wanted or 0.5))))


def _renaming(names: Iterable[str], prefix: str) -> Callable[[str], str]:
    """Return what puts the prefix before each of the names in a text."""
    pattern = re.compile(rf"\b({'|'.join(names)})\b")
    return lambda text: pattern.sub(lambda found: prefix + found[1], text)
