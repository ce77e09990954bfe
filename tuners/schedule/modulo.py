"""Iterative modulo scheduling (Rau, MICRO 27, 1994), and fitting a given schedule to an interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ...core import ScheduleError
from .bounds import Paths, interval_bound, longest_paths, require_interval
from .graph import Graph, Schedule, aligned
from .reservation import Reservations

PLACEMENTS = 8
"""Placements per operation before an interval is abandoned; Rau found that more than 6 seldom help."""


def heights(graph: Graph, interval: int) -> dict[str, float]:
    """Return Rau's priority: the longest way from each operation to any other."""
    paths = longest_paths(graph, interval)
    if paths is None:
        require_interval(graph, interval)
        raise ScheduleError(f"an interval of {interval} is impossible", f"use {interval_bound(graph)} or more")
    return {name: float(paths[i].max()) for i, name in enumerate(graph.names)}


def modulo_schedule(graph: Graph, interval: int, priority: Mapping[str, float] | None = None) -> dict[str, int] | None:
    """Return a valid schedule of this interval, or None where the search gives up; it is a heuristic.

    The operation of the highest `priority` (by default its height) goes first, into the earliest cycle that its placed
    predecessors and the resources allow. If none is free it takes one, and the displaced operations are placed again.
    """
    rank = priority or heights(graph, interval)
    incoming = {name: [e for e in graph.edges if e.target == name] for name in graph.names}
    outgoing = {name: [e for e in graph.edges if e.source == name] for name in graph.names}
    table, placed, last = Reservations(graph, interval), dict[str, int](), dict[str, int]()
    waiting = set(graph.names)

    def displace(name: str) -> None:
        table.remove(name, placed.pop(name))
        waiting.add(name)

    for _ in range(PLACEMENTS * len(graph.names)):
        if not waiting:
            return from_zero(placed, interval)
        name = min(waiting, key=lambda name: (-rank[name], graph.names.index(name)))
        early = max(
            (placed[e.source] + e.latency - interval * e.distance for e in incoming[name] if e.source in placed),
            default=0,
        )
        early = max(early, 0)
        free = (cycle for cycle in range(early, early + interval) if table.fits(name, cycle))
        cycle = next(free, max(early, last.get(name, -1) + 1))
        waiting.discard(name)
        for other in list(placed):
            if not table.fits(name, cycle) and table.conflicts(name, cycle, other, placed[other]):
                displace(other)
        if not table.fits(name, cycle):
            return None  # it meets its own next iteration
        table.place(name, cycle)
        placed[name] = last[name] = cycle
        for e in outgoing[name]:
            if e.target in placed and e.target != name and placed[e.target] < cycle + e.latency - interval * e.distance:
                displace(e.target)
        for e in incoming[name]:
            if e.source in placed and e.source != name and placed[e.source] + e.latency > cycle + interval * e.distance:
                displace(e.source)
    return None


def shortest_schedule(
    graph: Graph, priority: Mapping[str, float] | None = None, least: int = 1
) -> tuple[dict[str, int], int]:
    """Return a schedule that can be built, of the smallest interval from `least` on at which the search finds one.

    The second value is that interval. The sequential schedule is the last resort.
    """
    sequential, longest = graph.sequential()
    for interval in range(max(least, interval_bound(graph)), longest):
        found = modulo_schedule(graph, interval, priority)
        if found is not None and (built := aligned(graph, found, interval)) is not None:
            return built, interval
    return sequential, max(longest, least)


def schedule_in_order(graph: Graph, stages: Mapping[str, int]) -> tuple[dict[str, int], int] | None:
    """Return the shortest schedule found whose body has the operations in this order and in these stages, or None.

    The second value is its interval. Each operation is placed in the first free row after the one before; of roles,
    each program has an order of its own, and the loads' stands first.
    """
    loads = graph.roles.loading if graph.roles else ()
    for interval in range(interval_bound(graph), graph.sequential()[1] + 1):
        table, placed, row = Reservations(graph, interval), dict[str, int](), 0
        for i, (name, stage) in enumerate(stages.items()):
            row = 0 if i == len(loads) else row
            free = (r for r in range(row, interval) if table.fits(name, stage * interval + r))
            cycles = (stage * interval + r for r in free)
            cycle = next((c for c in cycles if _keeps_edges(graph, interval, {**placed, name: c}, name)), None)
            if cycle is None:
                break
            table.place(name, cycle)
            placed[name], row = cycle, cycle % interval + 1
        else:
            if (built := aligned(graph, placed, interval)) is not None:
                return built, interval
    return None


def _keeps_edges(graph: Graph, interval: int, placed: Schedule, name: str) -> bool:
    """Return whether the edges between an operation and those that are placed hold."""
    return all(
        placed[e.target] + interval * e.distance >= placed[e.source] + e.latency
        for e in graph.edges
        if name in (e.source, e.target) and e.source in placed and e.target in placed
    )


def refit(
    graph: Graph,
    interval: int,
    wishes: Schedule,
    first: Iterable[str] = (),
    paths: Paths | None = None,
) -> dict[str, int] | None:
    """Return a valid schedule of this interval near the wanted cycles, or None.

    The operations of `first` are placed first, exactly where they are wanted; the others in the order of their wanted
    cycles, each in the nearest cycle that all placed ones and the resources allow. The longest paths between all pairs
    keep that cycle from ruling out the others' dependences. An operation that finds no cycle goes before the others in
    another attempt; there are as many attempts as operations.
    """
    if paths is None and (paths := longest_paths(graph, interval)) is None:
        return None
    exact = list(first)
    rest = sorted(set(graph.names) - set(exact), key=lambda name: (wishes[name], graph.names.index(name)))
    for _ in graph.names:
        placed = _placed(graph, interval, wishes, [*exact, *rest], paths)
        missing = next((name for name in [*exact, *rest] if name not in placed), None)
        if any(placed.get(name) != wishes[name] for name in exact):
            return None
        if missing is None:
            return from_zero({name: placed[name] for name in graph.names}, interval)
        if missing == rest[0]:
            return None
        rest.remove(missing)
        rest.insert(0, missing)
    return None


def _placed(graph: Graph, interval: int, wishes: Schedule, names: Iterable[str], paths: Paths) -> dict[str, int]:
    """Place operations one after the other, up to the first that finds no cycle."""
    at = {name: i for i, name in enumerate(graph.names)}
    table, placed = Reservations(graph, interval), dict[str, int]()
    for name in names:
        low = max((placed[other] + paths[at[other], at[name]] for other in placed), default=-math.inf)
        high = min((placed[other] - paths[at[name], at[other]] for other in placed), default=math.inf)
        cycle = _nearest(table, name, wishes[name], low, high, interval)
        if cycle is None:
            break
        table.place(name, cycle)
        placed[name] = cycle
    return placed


def _nearest(table: Reservations, name: str, wish: int, low: float, high: float, interval: int) -> int | None:
    """Return the free cycle from low to high that is nearest to the wished one."""
    if low > high:
        return None
    center = int(min(max(wish, low), high))
    # Cycles one interval apart use the same cells: of each cell, the nearest cycle is enough.
    near = sorted(range(center - interval, center + interval + 1), key=lambda cycle: (abs(cycle - wish), -cycle))
    return next((cycle for cycle in near if low <= cycle <= high and table.fits(name, cycle)), None)


def from_zero(schedule: Schedule, interval: int) -> dict[str, int]:
    """Return the schedule with its first stage as stage 0; rows of the table stay as they are."""
    first = min(schedule.values()) // interval * interval
    return {name: cycle - first for name, cycle in schedule.items()}
