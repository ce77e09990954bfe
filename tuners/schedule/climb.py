"""Hill climbing over modulo schedules: moves of single operations, shorter intervals, other tiles."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable

from ...core import Config, Evaluation
from .bounds import interval_bound
from .graph import Graph, aligned
from .modulo import modulo_schedule, refit, shortest_schedule
from .space import Code, ScheduleSpace
from .validator import ScheduleValidator

TRIES = 300
"""Moves that are drawn before the neighbourhood counts as exhausted, and restarts before the space does."""
RESTART, RESTART_TILED = 24, 10
"""Number of results in a row without improvement after which the climb restarts; the second if there are other tiles.
"""
SHORTER, TILES = 0.7, 0.15
"""Shares of the moves that shorten the interval, and that change the tiles."""
SHORTENED = 16
"""Draws of a neighbour that may shorten the interval: a failure costs no trial, and at the least interval all fail."""
REBUILT = 0.5
"""Share of these for which all operations are scheduled anew, in the present order or another."""
RANKS = 8
SLACKS = (0, 1, 2, 4)
"""Cycles above the bound at which a schedule is begun anew."""
UNBUILT = 8
"""Schedules of the same tiles that cannot be built, after which no more are drawn for these: each costs a search."""
AT_ONCE = 3
"""Intervals that are tried for them."""


class ScheduleClimb:
    """Asks for neighbours of the best schedule of this climb; after `RESTART` failures it restarts elsewhere.

    A neighbour moves one operation, and repairs the others; or it has a shorter interval, near the present cycles or
    scheduled anew; or another tile. Schedules of equal order, stages and tiles are one kernel, and
    asked for once.

    A result counts as better only if its confidence interval lies below that of the current one: then the climb
    moves, and the streak of failures starts again. Where the intervals overlap and its median is not higher than the
    best of the climb, it moves too (a plateau is crossed so), but the streak goes on. With `greedy` False every
    success is moved to: a random walk, the baseline. What was under way when a climb ended moves the next one
    only if it is better than all before. Deterministic given `seed`.
    """

    def __init__(self, space: ScheduleSpace, seed: int = 0, start: Iterable[Config] = (), greedy: bool = True) -> None:
        self._space = space
        self._rng = random.Random(seed)
        self._greedy = greedy
        self._starts = [config for config in start if config in space] or [self._sequential()]
        self._known: set[Code] = set()
        self._waiting: set[Code] = set()
        self._left: set[Code] = set()
        """Requested by earlier climbs, and not reported yet."""
        self._here: Config | None = None
        self._low, self._median, self._lowest = math.inf, math.inf, math.inf
        self._streak = 0
        self._unbuilt: Counter[Config] = Counter()

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n configs with new code; empty if none is found."""
        asked: list[Config] = []
        while len(asked) < n and (config := self._next()) is not None:
            asked.append(config)
            self._waiting.add(self._space.code(config))
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Move to the config, or stay."""
        if config not in self._space:
            return
        code = self._space.code(config)
        self._known.add(code)
        self._waiting.discard(code)
        late, measurement = code in self._left, evaluation.measurement
        self._left.discard(code)
        if measurement is None:
            self._streak += not late
            return
        low, high = measurement.interval_ms
        median, lowest = measurement.median_ms, self._lowest
        self._lowest = min(low, lowest)
        if late and high >= lowest:
            return
        if high < self._low:
            self._here, self._low, self._median, self._streak = config, low, median, 0
            return
        self._streak += 1
        if not self._greedy or (low <= self._low and median <= self._median) or self._here is None:
            self._here = config

    def _next(self) -> Config | None:
        while self._starts:
            if (first := self._fresh(self._starts.pop(0))) is not None:
                return first
        if self._here is not None and (self._streak < self._most_failures or not self._greedy):
            for attempt in range(TRIES):
                if (moved := self._fresh(self._neighbour(self._here, attempt < SHORTENED))) is not None:
                    return moved
        if self._here is not None:
            self._restart()
        # Until a first success there is nothing to climb from.
        for _ in range(TRIES):
            if (elsewhere := self._fresh(self._anywhere())) is not None:
                return elsewhere
        return None

    @property
    def _most_failures(self) -> int:
        return min(RESTART, RESTART_TILED) if self._space.tiles else RESTART

    def _restart(self) -> None:
        """End this climb. The next success among later requests starts another one."""
        self._here = None
        self._low, self._median, self._streak = math.inf, math.inf, 0
        self._left |= self._waiting
        self._waiting.clear()

    def _fresh(self, config: Config | None) -> Config | None:
        """Return the config if it can be built and its code is new, which it then no longer is."""
        if config is None:
            return None
        tiles, (schedule, interval) = self._space.tiles_of(config), self._space.schedule_of(config)
        built = aligned(self._space.graph(tiles), schedule, interval)
        if built is None:
            return None
        config = self._space.config(tiles, built, interval)
        code = self._space.code(config)
        if code in self._known:
            return None
        self._known.add(code)
        return config

    def _neighbour(self, config: Config, shorten: bool) -> Config | None:
        tiles, (schedule, interval) = self._space.tiles_of(config), self._space.schedule_of(config)
        graph = self._space.graph(tiles)
        kind = self._rng.uniform(0.0 if shorten else SHORTER, 1.0)
        if kind < SHORTER:
            return self._shorter(tiles, graph, schedule, interval)
        if kind < SHORTER + TILES and self._space.tiles:
            return self._other_tiles(tiles, schedule, interval)
        node = self._rng.choice(graph.names)
        cycle = self._rng.randrange(max(schedule.values()) + interval)
        moved, repaired, _ = ScheduleValidator(schedule, interval, graph).attempt_move(node, cycle)
        return self._space.config(tiles, repaired, interval) if moved else None

    def _shorter(self, tiles: Config, graph: Graph, schedule: dict[str, int], interval: int) -> Config | None:
        bound = interval_bound(graph)
        if interval <= bound:
            return None
        if self._rng.random() < REBUILT:
            # Early operations first, with some noise, or a random order; displaced operations are placed again.
            noise = max(schedule.values()) * self._rng.random() / 2
            ranks = {name: self._rng.uniform(0, noise) - cycle for name, cycle in schedule.items()}
            if self._rng.random() < 0.5:
                # Few ranks: of equal ones that goes first which stands first in the loop.
                ranks = {name: float(self._rng.randrange(RANKS)) for name in schedule}
            least = self._rng.randrange(bound, interval)
            for shorter in range(least, min(least + AT_ONCE, interval)):
                if (built := modulo_schedule(graph, shorter, ranks)) is not None:
                    return self._space.config(tiles, built, shorter)
            return None
        shorter = self._rng.choice([interval - 1, self._rng.randrange(bound, interval), bound])
        # As tight as before within the iteration, or with the same share of the interval.
        scale = self._rng.choice([1.0, shorter / interval])
        wishes = {name: round(cycle * scale) for name, cycle in schedule.items()}
        fitted = refit(graph, shorter, wishes)
        return self._space.config(tiles, fitted, shorter) if fitted else None

    def _other_tiles(self, tiles: Config, schedule: dict[str, int], interval: int) -> Config | None:
        assert self._space.tiles is not None
        encoded = self._space.tiles.encoded
        near = encoded.neighbours(encoded.rows([tiles])[0])
        if not len(near):
            return None
        other = encoded.config(near[self._rng.randrange(len(near))])
        if self._rng.random() < REBUILT:
            return self._anew(other)
        before, after = self._space.graph(tiles), self._space.graph(other)
        ratio = interval_bound(after) / interval_bound(before)
        wanted = max(interval_bound(after), round(interval * ratio))
        fitted = refit(after, wanted, {name: round(cycle * ratio) for name, cycle in schedule.items()})
        return self._space.config(other, fitted, wanted) if fitted else None

    def _anywhere(self) -> Config | None:
        return self._anew(self._space.draw_tiles(self._rng))

    def _anew(self, tiles: Config) -> Config | None:
        """Return a random schedule of few ranks, or None if it cannot be built."""
        if self._unbuilt[tiles] >= UNBUILT:
            return None
        graph = self._space.graph(tiles)
        priority = {name: float(self._rng.randrange(RANKS)) for name in graph.names}
        least = interval_bound(graph) + self._rng.choice(SLACKS)
        schedule, interval = shortest_schedule(graph, priority, least)
        if aligned(graph, schedule, interval) is None:
            self._unbuilt[tiles] += 1
            return None
        return self._space.config(tiles, schedule, interval)

    def _sequential(self) -> Config:
        tiles = self._space.some_tiles
        return self._space.config(tiles, *self._space.graph(tiles).sequential())
