"""The loop to schedule: operations, the resources that they use and when, and their dependences.

A schedule gives each operation a start cycle; the loop starts another iteration every `interval` cycles. Cycles are
those of the model, not the device's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from ...core import ScheduleError

Schedule = Mapping[str, int]
"""The start cycle of each operation, within the first iteration."""


@dataclass(frozen=True)
class LoopOperation:
    """One step of the loop's body."""

    name: str
    latency: int
    """Cycles from its start until its result can be used."""
    uses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By resource: the units that it occupies in each cycle from its start."""
    buffer_bytes: int = 0
    """Shared memory of one version of the result in bytes; 0 if it is in registers."""
    one_version: bool = False
    """Whether its result cannot be kept when it is written again, as registers cannot be indexed by iteration."""

    @property
    def length(self) -> int:
        """Cycles until the result is available and the resources are free."""
        return max(self.latency, self.reading)

    @property
    def reading(self) -> int:
        """Cycles until it has read its inputs: as long as it occupies resources."""
        return max(map(len, self.uses.values()), default=1)


@dataclass(frozen=True)
class Edge:
    """`target` may start `latency` cycles after the start of `source`, `distance` iterations later.

    So `start[target] + interval * distance >= start[source] + latency`.
    """

    source: str
    target: str
    latency: int
    distance: int = 0
    carries_data: bool = True
    """Whether the target reads the source's result. Otherwise it only waits, as before overwriting a buffer."""


@dataclass(frozen=True)
class WarpRoles:
    """Two programs of one loop, each in the order of its cycles: other warps load, ahead as there are buffers."""

    loading: tuple[str, ...]
    """The loads; the stages of their cycles say nothing, since they wait for a free buffer only."""
    depth: int
    """Number of versions of a load's result."""
    behind: tuple[str, ...]
    """Operations that may be one stage behind the other computations, which the compiler keeps in one stage."""


@dataclass(frozen=True)
class Graph:
    """A loop. Raises `ScheduleError` if no schedule satisfies it at any interval."""

    operations: tuple[LoopOperation, ...]
    """In an order in which one iteration can be executed: sources before targets, for edges of distance 0."""
    edges: tuple[Edge, ...]
    limits: Mapping[str, int]
    """Units of each resource."""
    buffer_limit: int | None = None
    """Bytes of shared memory for all versions of all results; None for no limit."""
    stage_limit: int | None = None
    """The most stages that the compiler takes; None for no limit."""
    roles: WarpRoles | None = None
    """Roles of warps; None if all threads execute everything in one order."""

    def __post_init__(self) -> None:
        names = [operation.name for operation in self.operations]
        if not names:
            raise ScheduleError("the graph has no operation", "give at least one")
        if len(set(names)) != len(names):
            raise ScheduleError(f"an operation is named twice: {', '.join(names)}", "use different names")
        if negative := [name for name, limit in self.limits.items() if limit < 0]:
            raise ScheduleError(f"{', '.join(negative)} has a negative limit", "use 0 or more")
        for operation in self.operations:
            self._check_operation(operation)
        for edge in self.edges:
            if unknown := {edge.source, edge.target} - set(names):
                raise ScheduleError(f"an edge names {', '.join(sorted(unknown))}", f"use {', '.join(names)}")
            if edge.latency < 0 or edge.distance < 0:
                raise ScheduleError(
                    f"the edge {edge.source} -> {edge.target} has a negative latency or distance", "use 0 or more"
                )
        self._check_order(names)

    def _check_operation(self, operation: LoopOperation) -> None:
        if operation.latency < 0 or any(units < 0 for used in operation.uses.values() for units in used):
            raise ScheduleError(f"{operation.name} has a negative latency or use", "use 0 or more")
        for resource, used in operation.uses.items():
            if resource not in self.limits:
                raise ScheduleError(f"{operation.name} uses {resource}, which has no limit", "name it in `limits`")
            if max(used, default=0) > self.limits[resource]:
                raise ScheduleError(
                    f"{operation.name} uses {max(used)} units of {resource}, which has {self.limits[resource]}",
                    "raise its limit",
                )

    def _check_order(self, names: Sequence[str]) -> None:
        before: dict[str, list[str]] = {name: [] for name in names}
        for edge in self.edges:
            if edge.distance == 0:
                before[edge.target].append(edge.source)
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            cycle = list(reversed(error.args[1]))
            raise ScheduleError(
                f"the dependences {' -> '.join(cycle)} are a cycle of distance 0: each would wait for itself",
                "give the edge that goes to the next iteration a distance of 1",
            ) from None
        at = {name: i for i, name in enumerate(names)}
        for edge in self.edges:
            if edge.distance == 0 and at[edge.source] > at[edge.target]:
                raise ScheduleError(
                    f"{edge.target} stands before {edge.source}, which it depends on", "list the operations in order"
                )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The operations' names, in order."""
        return tuple(operation.name for operation in self.operations)

    @cached_property
    def by_name(self) -> Mapping[str, LoopOperation]:
        """The operations by name."""
        return {operation.name: operation for operation in self.operations}

    def sequential(self) -> tuple[dict[str, int], int]:
        """Return the schedule without any overlap, and its interval: always valid."""
        starts: dict[str, int] = {}
        now = 0
        for operation in self.operations:
            starts[operation.name] = now
            now += max(1, operation.length, *(e.latency for e in self.edges if e.source == operation.name), 0)
        return starts, now


def order_and_stage(graph: Graph, schedule: Schedule, interval: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return each operation's position in the pipelined body, and its stage, both in the graph's order.

    In the steady state the body runs cycle after cycle of the interval. Among operations of one cycle those of older
    iterations, which have the higher stage, come first: a wait of latency 0 leads from them to younger ones. Of roles
    the loads' program stands first, all in stage 0.
    """
    loads = graph.roles.loading if graph.roles else ()
    stage = [schedule[name] // interval for name in graph.names]
    first = min(at for name, at in zip(graph.names, stage, strict=True) if name not in loads)
    stage = [0 if name in loads else at - first for name, at in zip(graph.names, stage, strict=True)]
    row = [schedule[name] % interval for name in graph.names]
    sequence = sorted(range(len(row)), key=lambda i: (graph.names[i] not in loads, row[i], -stage[i], i))
    order = [0] * len(row)
    for position, i in enumerate(sequence):
        order[i] = position
    return tuple(order), tuple(stage)


def versions(graph: Graph, schedule: Schedule, interval: int) -> dict[str, int]:
    """Return how many versions of each result are kept: as many as are written until its last use has begun.

    In the stage after it was written a result is still there for uses that stand before the next write in the body.
    """
    orders, stages = order_and_stage(graph, schedule, interval)
    order, stage = (dict(zip(graph.names, values, strict=True)) for values in (orders, stages))
    found = dict.fromkeys(graph.names, 1)
    loads = graph.roles.loading if graph.roles else ()
    found.update(dict.fromkeys(loads, graph.roles.depth if graph.roles else 1))
    for edge in graph.edges:
        if edge.carries_data and edge.source not in loads:
            apart = stage[edge.target] + edge.distance - stage[edge.source]
            found[edge.source] = max(found[edge.source], apart + (order[edge.target] > order[edge.source]))
    return found


def refusal(graph: Graph, schedule: Schedule, interval: int) -> str:
    """Return the reason why a valid schedule cannot be built; '' if it can."""
    stage = order_and_stage(graph, schedule, interval)[1]
    stages = max(stage) + 1
    if graph.roles and (why := _apart(graph.names, graph.roles, stage) or _held_up(graph, schedule, interval)):
        return why
    if graph.stage_limit is not None and stages > graph.stage_limit:
        return f"it has {stages} stages, and the compiler takes {graph.stage_limit}"
    kept = versions(graph, schedule, interval)
    for operation in graph.operations:
        if operation.one_version and kept[operation.name] > 1:
            return f"the result of {operation.name} is needed when it is written again, and it has one version"
    taken = sum(operation.buffer_bytes * kept[operation.name] for operation in graph.operations)
    if graph.buffer_limit is not None and taken > graph.buffer_limit:
        return f"the buffers take {taken} bytes of shared memory, and {graph.buffer_limit} are there"
    return ""


def _apart(names: Sequence[str], roles: WarpRoles, stages: Sequence[int]) -> str:
    """Return what warp roles cannot express: operations on registers have no stage of their own."""
    by_name = dict(zip(names, stages, strict=True))
    together = {name: by_name[name] for name in names if name not in (*roles.loading, *roles.behind)}
    first, last = (pick(together, key=together.__getitem__) for pick in (min, max))
    if together[first] != together[last]:
        return f"{last} is in a later stage than {first}, and what reads no pipeline is in the first stage of its role"
    late = next((name for name in roles.behind if by_name[name] > together[first] + 1), None)
    return f"{late} is more than one stage behind {first}, whose result has one version" if late else ""


def _held_up(graph: Graph, schedule: Schedule, interval: int) -> str:
    """Return the load that waits for a buffer and delays another one for too long, or ''.

    For ever, where the buffer is only freed after what the other is for. Or so long that the other has less than an
    iteration to arrive, where in the other order both would have more: on an H200 attention that loads V first, in two
    versions, took 1.09 to 1.28 times as long as with K first.
    """
    at = dict(zip(graph.names, zip(*order_and_stage(graph, schedule, interval), strict=True), strict=True))
    loads, depth = (graph.roles.loading, graph.roles.depth) if graph.roles else ((), 1)
    reads = [(edge.source, edge.target) for edge in graph.edges if edge.carries_data and edge.source in loads]
    for first, frees in reads:
        for second, needs in reads:
            # `second` of an iteration is loaded after `first`, whose buffer is freed `depth` iterations before.
            freed, needed = (at[frees][1] - depth, at[frees][0]), (at[needs][1], at[needs][0])
            if at[first] < at[second] and freed > needed:
                return f"{first} waits for {frees}, and holds up {second}, for which {needs} before it waits"
            ahead, other_way = needed[0] - freed[0], freed[0] + depth - (needed[0] - depth)
            if at[first] < at[second] and ahead < min(2, other_way):
                return f"{first} waits for {frees}, and {second} behind it comes late for {needs}; load it first"
    return ""


def aligned(graph: Graph, schedule: Schedule, interval: int) -> dict[str, int] | None:
    """Return a valid schedule, delayed by as many cycles as code generation needs; None if no delay helps.

    All cycles shift by the same amount, which preserves dependences and the table's cells relative to each other; only
    the start of the body changes, and so which operations share a stage.
    """
    for row in sorted({0, *(-cycle % interval for cycle in schedule.values())}):
        moved = {name: cycle + row for name, cycle in schedule.items()}
        first = min(moved.values()) // interval * interval
        moved = {name: cycle - first for name, cycle in moved.items()}
        if not refusal(graph, moved, interval):
            return moved
    return None
