"""Any tuner of the catalogue over schedules: its configs are random keys, which list scheduling turns into schedules.

Random keys (Bean, ORSA Journal on Computing 6, 1994): each operation has a number, the higher goes first, and
whatever the numbers are, the result is a valid schedule.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from ...core import Config, Evaluation, Origin, Parameter, SearchSpace, Status, Tuner
from .bounds import interval_bound
from .graph import refusal
from .modulo import shortest_schedule
from .space import Code, ScheduleSpace

KEY, SLACK = "KEY_", "SLACK"
LEVELS = 8
"""Different keys; equal ones go by the operation's place in the loop."""
SLACKS = (0, 1, 2, 4)
"""Cycles that the interval may be above its bound: a longer one leaves room for other orders."""
REPEATED = 200
"""Keys in a row that give known or unbuildable schedules, after which chance draws this many more."""


def key_space(space: ScheduleSpace) -> SearchSpace:
    """Return the space of tiles, slack of the interval, and keys."""
    tiles = space.tiles.parameters if space.tiles else ()
    count = len(space.operations)
    # The defaults are those of the loop's own order: the first operation goes first.
    keys = [
        Parameter(f"{KEY}{name}", range(LEVELS), LEVELS - 1 - i * LEVELS // count)
        for i, name in enumerate(space.operations)
    ]
    return SearchSpace([*tiles, Parameter(SLACK, SLACKS), *keys], space.tiles.constraints if space.tiles else ())


class RandomKeys:
    """Offers a tuner of `key_space` as a tuner of schedules.

    First come the schedules of `start`, which need no keys. What it asks for gets its result at once where a schedule
    of the same code was measured before, and costs no trial. Keys whose schedule cannot be built fail at once.
    """

    def __init__(self, tuner: Tuner, space: ScheduleSpace, seed: int = 0, start: Iterable[Config] = ()) -> None:
        self._tuner = tuner
        self._starts = [config for config in start if config in space]
        self._space = space
        self._keys = key_space(space)
        self._rng = random.Random(seed)
        self._waiting: dict[Code, list[Config]] = defaultdict(list)
        self._results: dict[Code, Evaluation] = {}
        self._decode = lru_cache(maxsize=4096)(self._schedule)

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n schedules whose code was not asked for before; empty when none is found."""
        asked: list[Config] = []
        while len(asked) < n and (config := self._next()) is not None:
            asked.append(config)
        return asked

    def _next(self) -> Config | None:
        while self._starts:
            code = self._space.code(config := self._starts.pop(0))
            if code not in self._results and code not in self._waiting:
                self._waiting[code] = []  # keys that give this code later get its result
                return config
        for attempt in range(2 * REPEATED):
            chosen = self._tuner.ask(1) if attempt < REPEATED else []
            keys = chosen[0] if chosen else self._keys.sample(self._rng)
            config = self._decode(keys)
            code = self._space.code(config)
            if code in self._results:
                self._tuner.tell(keys, self._results[code])
            elif why := refusal(self._space.graph(code[0]), *self._space.schedule_of(config)):
                self._tuner.tell(keys, _unbuildable(keys, why))
            else:
                asked = code in self._waiting
                self._waiting[code].append(keys)
                if not asked:
                    return config
        return None

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Pass the result on to all keys that stand for this code."""
        if config not in self._space:
            return
        code = self._space.code(config)
        self._results[code] = evaluation
        for keys in self._waiting.pop(code, []):
            self._tuner.tell(keys, evaluation)

    def _schedule(self, keys: Config) -> Config:
        tiles = self._space.tiles_of(keys)
        graph = self._space.graph(tiles)
        priority = {name: float(keys[f"{KEY}{name}"]) for name in self._space.operations}
        least = interval_bound(graph) + int(keys[SLACK])
        return self._space.config(tiles, *shortest_schedule(graph, priority, least))


def _unbuildable(keys: Config, why: str) -> Evaluation:
    return Evaluation(
        status=Status.COMPILE_ERROR, kernel_digest="", config=dict(keys), origin=Origin.SIMULATED, message=why
    )
