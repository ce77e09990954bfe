"""The resource reservation table of a modulo schedule: units in use, by cycle modulo the interval."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .graph import Graph, Schedule

Table = npt.NDArray[np.int64]
"""(interval, resources): units in use; resources in the order of the graph's limits."""


class Reservations:
    """Occupies and frees the cells of operations. An operation longer than the interval meets itself, and counts so."""

    def __init__(self, graph: Graph, interval: int) -> None:
        self.interval = interval
        self.resources = tuple(graph.limits)
        self.table: Table = np.zeros((interval, len(self.resources)), dtype=np.int64)
        self._limits = np.array([graph.limits[name] for name in self.resources], dtype=np.int64)
        self._shapes = {name: self._shape(graph, name) for name in graph.names}
        self._placed: dict[tuple[str, int], Table] = {}

    @classmethod
    def of(cls, graph: Graph, schedule: Schedule, interval: int) -> Reservations:
        """Return the table with all operations of a schedule in it, whether or not they fit."""
        made = cls(graph, interval)
        for name, cycle in schedule.items():
            made.place(name, cycle)
        return made

    def _shape(self, graph: Graph, name: str) -> Table:
        """Return the cells of an operation that starts in cycle 0."""
        shape = np.zeros_like(self.table)
        for resource, used in graph.by_name[name].uses.items():
            column = self.resources.index(resource)
            for offset, units in enumerate(used):
                shape[offset % self.interval, column] += units
        return shape

    def _at(self, name: str, cycle: int) -> Table:
        row = cycle % self.interval
        if (found := self._placed.get((name, row))) is None:
            found = self._placed[name, row] = np.roll(self._shapes[name], row, axis=0)
        return found

    def fits(self, name: str, cycle: int) -> bool:
        """Return whether the operation can start in this cycle beside those that are in the table."""
        return bool((self.table + self._at(name, cycle) <= self._limits).all())

    def place(self, name: str, cycle: int) -> None:
        """Occupy the cells of an operation that starts in this cycle."""
        self.table += self._at(name, cycle)

    def remove(self, name: str, cycle: int) -> None:
        """Free them."""
        self.table -= self._at(name, cycle)

    def conflicts(self, name: str, cycle: int, other: str, at: int) -> bool:
        """Return whether two operations occupy a cell together that one more makes too full."""
        mine = self._at(name, cycle)
        full = self.table + mine > self._limits
        return bool((full & (mine > 0) & (self._at(other, at) > 0)).any())

    def overfull(self) -> list[tuple[int, str]]:
        """Return the cells with more units in use than there are: cycle and resource."""
        return [(int(row), self.resources[column]) for row, column in np.argwhere(self.table > self._limits)]
