"""The space of an operation's schedules: derived from the operation and the processor, or from a user's ranges."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...core import Config, SearchSpace, SpaceError, Target, Value
from ...core.mlir_operation import Operation
from . import cpu_levels, cuda_levels
from .levels import Levels
from .machine import ScheduleTarget
from .roles import LoopRoles

Ranges = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Schedule:
    """The parameters of one operation's schedule, and the text that they are bound into."""

    operation: Operation
    values: Mapping[str, tuple[int, ...]]
    constraints: tuple[str, ...]
    first: tuple[Config, ...]
    """Likely configs, the most likely first."""
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


def schedule(operation: Operation, machine: ScheduleTarget, ranges: Ranges | None = None, prefix: str = "") -> Schedule:
    """Return how an operation can be scheduled on a processor.

    With `ranges`, the parameters that these name take their values, and the others keep their likeliest. Raises
    `SpaceError` where no config is left.
    """
    levels = (cpu_levels if machine.target is Target.CPU else cuda_levels).levels(LoopRoles.of(operation), machine)
    if ranges:
        constraints = levels.constraints
        space, remarks = _space_within(levels, ranges, operation)
    else:
        constraints, space = _derived(levels, operation)
        remarks = []
    first = _nearest(levels.likely, space)
    rename = _renaming(levels.values, prefix)
    return Schedule(
        operation,
        {prefix + parameter.name: tuple(map(int, parameter.values)) for parameter in space.parameters},
        tuple(map(rename, constraints)),
        tuple(Config({prefix + name: value for name, value in item.items()}) for item in first),
        rename(levels.info),
        prefix,
        tuple(remarks),
    )


def schedules(operations: Sequence[Operation], machine: ScheduleTarget, ranges: Ranges | None = None) -> list[Schedule]:
    """Return the schedules of each operation of a function; if there are several, their names are prefixes.

    One without a config is left to IREE, with a remark. Raises `SpaceError` if all are.
    """
    if len(operations) == 1:
        return [schedule(operations[0], machine, ranges)]
    found: list[Schedule] = []
    without: list[SpaceError] = []
    for item in operations:
        try:
            found.append(schedule(item, machine, ranges, f"{item.name}_"))
        except SpaceError as error:
            without.append(error)
    if not found:
        raise without[0]
    left = tuple(f"left to IREE: {error}" for error in without)
    return [replace(found[0], remarks=found[0].remarks + left), *found[1:]]


def _derived(levels: Levels, operation: Operation) -> tuple[tuple[str, ...], SearchSpace]:
    """Return a derived space and its constraints. For a small operation it includes usually slow configs."""
    preferred = levels.constraints + levels.preferences
    try:
        return preferred, _space_of(levels.values, preferred, operation)
    except SpaceError:
        return levels.constraints, _space_of(levels.values, levels.constraints, operation)


def _space_within(levels: Levels, ranges: Ranges, operation: Operation) -> tuple[SearchSpace, list[str]]:
    """Return the space of the ranges within the operation's shape, and the excluded values.

    What they do not name is held; where no config is left then, it is free.
    """
    remarks = [f"{name} has no meaning for {operation.name} here" for name in ranges if name not in levels.values]
    given: dict[str, tuple[int, ...]] = {}
    for name, wanted in ranges.items():
        if name not in levels.values:
            continue
        most = levels.extents.get(name)
        fitting = tuple(value for value in dict.fromkeys(wanted) if most is None or value <= most)
        if too_large := [value for value in wanted if value not in fitting]:
            remarks.append(f"{name} = {too_large} is left out of {operation.name}: the loop has {most} steps")
        given[name] = fitting or (_close(levels.values[name], most or 1),)
    held: dict[str, tuple[int, ...]] = {
        name: (_close(v, levels.likely[0].get(name, v[0])),) for name, v in levels.values.items()
    }
    try:
        return _space_of(held | given, levels.constraints, operation), remarks
    except SpaceError:
        return _space_of(dict(levels.values) | given, levels.constraints, operation), remarks


def _space_of(values: Ranges, constraints: Sequence[str], operation: Operation) -> SearchSpace:
    try:
        return SearchSpace.of(values, constraints)
    except SpaceError as error:
        raise SpaceError(f"{operation.name} ({operation.shape}): {error}") from None


def _nearest(likely: Iterable[Mapping[str, int]], space: SearchSpace) -> list[Config]:
    """Return members close to the likely ones; the space's default if there are none."""
    found: dict[Config, None] = {}
    for item in likely:
        config = Config(
            {p.name: _close([int(v) for v in p.values], item.get(p.name, int(p.values[0]))) for p in space.parameters}
        )
        if config in space:
            found[config] = None
    return list(found) or [space.default]


def _close(values: Sequence[int], wanted: int) -> int:
    """Return the value whose ratio to the wanted one is nearest to 1; a zero counts as a half."""
    return min(values, key=lambda value: abs(math.log((value or 0.5) / (wanted or 0.5))))


def _renaming(names: Iterable[str], prefix: str) -> Callable[[str], str]:
    """Return a function that puts the prefix before each of the names in a text."""
    pattern = re.compile(rf"\b({'|'.join(names)})\b")
    return lambda text: pattern.sub(lambda found: prefix + found[1], text)
