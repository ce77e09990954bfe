"""Checks schedules, and moves single operations with repair of the others."""

from __future__ import annotations

from numbers import Integral

from ...core import ScheduleError
from .bounds import longest_paths, require_interval
from .graph import Graph, Schedule
from .modulo import refit
from .reservation import Reservations, Table


def violations(graph: Graph, schedule: Schedule, interval: int) -> list[str]:
    """Return in words what makes a schedule invalid; empty for a valid one."""
    if missing := [name for name in graph.names if name not in schedule]:
        return [f"{', '.join(missing)} has no cycle"]
    if unknown := [name for name in schedule if name not in graph.by_name]:
        return [f"{', '.join(unknown)} is not an operation"]
    if broken := [name for name in graph.names if not isinstance(schedule[name], Integral)]:
        return [f"{', '.join(broken)} has no whole number as its cycle"]
    if negative := [name for name in graph.names if schedule[name] < 0]:
        return [f"{', '.join(negative)} starts before cycle 0"]
    found = []
    for edge in graph.edges:
        start, least = schedule[edge.target] + interval * edge.distance, schedule[edge.source] + edge.latency
        if start < least:
            later = f" {edge.distance} iterations later" if edge.distance else ""
            found.append(
                f"{edge.target}{later} starts in cycle {start}, {least - start} before {edge.source} allows it"
            )
    for row, resource in Reservations.of(graph, schedule, interval).overfull():
        found.append(f"{resource} is overfull in cycle {row} of the interval")
    return found


def require_valid(graph: Graph, schedule: Schedule, interval: int) -> None:
    """Raise `ScheduleError` for an impossible interval, or with the first violation."""
    require_interval(graph, interval)
    if found := violations(graph, schedule, interval):
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ScheduleError(f"the schedule is invalid: {found[0]}{more}", "change its cycles, or raise its interval")


class ScheduleValidator:
    """Holds a valid schedule of the interval T, and tries moves of its operations.

    Its table always follows from its schedule, so that the two cannot disagree. Raises `ScheduleError` for an invalid
    initial schedule.
    """

    def __init__(self, initial_schedule: Schedule, T: int, graph: Graph) -> None:
        require_valid(graph, initial_schedule, T)
        self.graph = graph
        self.interval = T
        self.schedule = {name: initial_schedule[name] for name in graph.names}
        self._paths = longest_paths(graph, T)

    @property
    def rrt(self) -> Table:
        """The resource reservation table, (interval, resources)."""
        return Reservations.of(self.graph, self.schedule, self.interval).table

    def attempt_move(self, node: str, new_cycle: int) -> tuple[bool, dict[str, int], str]:
        """Return whether the operation can start in this cycle, the repaired schedule, and the reason if it cannot.

        The others stay where they are if they can, or go to the nearest cycle that is allowed. Nothing is committed:
        after a failure the schedule returned is the present one. A cycle before 0 moves all operations by whole
        intervals, so that the first stage is stage 0.
        """
        if node not in self.graph.by_name:
            return False, dict(self.schedule), f"{node} is not an operation; use {', '.join(self.graph.names)}"
        wishes = {**self.schedule, node: new_cycle}
        moved = refit(self.graph, self.interval, wishes, [node], self._paths)
        if moved is None:
            return False, dict(self.schedule), f"{node} cannot start in cycle {new_cycle}: the others find no place"
        return True, moved, ""

    def commit_move(self, new_schedule: Schedule) -> None:
        """Make a schedule the current one. Raises `ScheduleError` if it is invalid."""
        require_valid(self.graph, new_schedule, self.interval)
        self.schedule = {name: new_schedule[name] for name in self.graph.names}
