"""Lower bounds of the interval, from resources and from recurrences (Rau, MICRO 27, 1994)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...core import ScheduleError
from .graph import Graph
from .reservation import Reservations

Paths = npt.NDArray[np.float64]
"""(operations, operations): the least cycles from the start of one to the start of another; -inf without a path."""


def resource_bound(graph: Graph) -> int:
    """Return the least interval at which every resource has as many units as one iteration takes."""
    needed = 1
    for resource, limit in graph.limits.items():
        taken = sum(sum(operation.uses.get(resource, ())) for operation in graph.operations)
        needed = max(needed, -(-taken // limit) if taken else 1)
    # An operation that is longer than the interval meets its own next iteration.
    while True:
        empty = Reservations(graph, needed)
        if all(empty.fits(name, 0) for name in graph.names):
            return needed
        needed += 1


def recurrence_bound(graph: Graph) -> int:
    """Return the least interval at which no operation waits for itself: cycles of latency over distance, rounded up."""
    low, high = 1, max(1, sum(edge.latency for edge in graph.edges))
    while low < high:
        middle = (low + high) // 2
        if longest_paths(graph, middle) is None:
            low = middle + 1
        else:
            high = middle
    return low


def interval_bound(graph: Graph) -> int:
    """Return the larger of both bounds. No valid schedule has a smaller interval; one with this need not exist."""
    return max(resource_bound(graph), recurrence_bound(graph))


def require_interval(graph: Graph, interval: int) -> None:
    """Raise `ScheduleError` for an interval below a bound."""
    for bound, why in ((resource_bound(graph), "resources"), (recurrence_bound(graph), "recurrences")):
        if interval < bound:
            raise ScheduleError(
                f"an interval of {interval} is impossible: the {why} of one iteration need {bound} cycles",
                f"use {interval_bound(graph)} or more",
            )


def longest_paths(graph: Graph, interval: int) -> Paths | None:
    """Return the minimum cycles between starts at this interval (Floyd, Warshall); None if it is too small."""
    at = {name: i for i, name in enumerate(graph.names)}
    paths = np.full((len(at), len(at)), -np.inf)
    np.fill_diagonal(paths, 0.0)
    for edge in graph.edges:
        source, target = at[edge.source], at[edge.target]
        paths[source, target] = max(paths[source, target], edge.latency - interval * edge.distance)
    for middle in range(len(at)):
        paths = np.maximum(paths, paths[:, middle, None] + paths[None, middle, :])
    return None if (np.diag(paths) > 0).any() else paths
