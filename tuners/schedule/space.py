"""The space of valid schedules, together with the tiles that decide how long the operations take."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import lru_cache

from ...core import Config, ScheduleError, SearchSpace, SpaceError, Value
from .graph import Graph, Schedule, order_and_stage, refusal
from .validator import require_valid

INTERVAL = "INTERVAL"
"""The constant of a kernel that holds the interval; each operation's cycle is a constant of the operation's name."""

Code = tuple[Config, tuple[int, ...], tuple[int, ...]]
"""Tiles, order and stages: the parts of a config that the compiler sees."""


class ScheduleSpace:
    """Configs that hold a valid schedule which can be built: `QK=4, PV=15, INTERVAL=9, BLOCK_M=128`.

    `graph_of` gives the loop of a member of `tiles`; all loops have the same operations. A list of configs would be
    too long; a search needs to know its members only.
    """

    def __init__(self, graph_of: Callable[[Config], Graph], tiles: SearchSpace | None = None) -> None:
        self.tiles = tiles
        self._graph_of = lru_cache(maxsize=None)(graph_of)
        self.operations = self.graph(self.some_tiles).names
        self.names = (*(tiles.names if tiles else ()), INTERVAL, *self.operations)
        if len(set(self.names)) != len(self.names):
            raise SpaceError(f"an operation has the name of a tile: {', '.join(self.names)}; rename it")

    @property
    def some_tiles(self) -> Config:
        """The default tiles; an empty config without tiles."""
        return self.tiles.default if self.tiles else Config()

    def graph(self, tiles: Mapping[str, Value]) -> Graph:
        """Return the loop at these tiles."""
        return self._graph_of(tiles if isinstance(tiles, Config) else Config(tiles))

    def draw_tiles(self, rng: random.Random) -> Config:
        """Return tiles at random."""
        return self.tiles.sample(rng) if self.tiles else Config()

    def tiles_of(self, config: Mapping[str, Value]) -> Config:
        """Return the tiles in a config."""
        return Config({name: config[name] for name in self.tiles.names} if self.tiles else {})

    def schedule_of(self, config: Mapping[str, Value]) -> tuple[dict[str, int], int]:
        """Return the schedule in a config, and its interval. Raises `ScheduleError` unless all values are integers."""
        for name in (INTERVAL, *self.operations):
            value = config.get(name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ScheduleError(f"{name} is {value!r}, which is not a cycle", "use a whole number")
        if (interval := int(config[INTERVAL])) < 1:
            raise ScheduleError(f"an interval of {interval} is impossible", "use 1 or more")
        return {name: int(config[name]) for name in self.operations}, interval

    def config(self, tiles: Mapping[str, Value], schedule: Schedule, interval: int) -> Config:
        """Return a schedule as a config."""
        return Config({**tiles, INTERVAL: interval, **{name: schedule[name] for name in self.operations}})

    def code(self, config: Mapping[str, Value]) -> Code:
        """Return the parts that the compiler sees: configs with equal code are one kernel."""
        tiles = self.tiles_of(config)
        return tiles, *order_and_stage(self.graph(tiles), *self.schedule_of(config))

    def require(self, config: Mapping[str, Value]) -> None:
        """Raise `ScheduleError` with the reason why a config is not a member."""
        if unknown := sorted(set(config) ^ set(self.names)):
            raise ScheduleError(f"the schedule and the loop differ in {', '.join(unknown)}", "use one of this kernel")
        tiles = self.tiles_of(config)
        if self.tiles and tiles not in self.tiles:
            raise ScheduleError(f"the tiles {tiles} are not in the space", f"use {self.tiles!r}")
        graph, (schedule, interval) = self.graph(tiles), self.schedule_of(config)
        require_valid(graph, schedule, interval)
        if why := refusal(graph, schedule, interval):
            raise ScheduleError(why, "bring producer and consumer closer")

    def __contains__(self, config: object) -> bool:
        if not isinstance(config, Mapping):
            return False
        try:
            self.require(config)
        except ScheduleError:
            return False
        return True
