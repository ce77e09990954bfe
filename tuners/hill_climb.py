"""Hill climbing from many starts: moves to a better neighbour while there is one, then restarts elsewhere."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

import numpy as np

from ..core import Config, Evaluation, SearchSpace
from .observations import Observations, Row
from .start import any_fresh, within


class HillClimb:
    """Asks for members that differ from the best of this climb in one parameter, the nearest values first.

    The first configs are `start`, or a random one. When all neighbours are worse, the climb restarts at a random
    member. Deterministic given `seed`.
    """

    def __init__(self, space: SearchSpace, seed: int = 0, start: Iterable[Config] = ()) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._seen = Observations(space)
        self._starts: deque[Row] = deque(within(space, start))
        self._around: deque[Row] = deque()
        self._summit = math.inf
        self._waiting: set[Config] = set()

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n new configs; empty if the space is exhausted."""
        asked: list[Config] = []
        while len(asked) < n:
            row = self._next()
            if row is None:
                break
            asked.append(self._seen.ask(row))
        self._waiting.update(asked)
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Move to the config if it is better than the current one."""
        self._seen.tell(config, evaluation)
        self._waiting.discard(config)
        latency = evaluation.latency_ms if evaluation.latency_ms is not None else math.inf
        if latency < self._summit and config in self._space:
            self._summit = latency
            self._around = deque(self._neighbours(self._space.encoded.rows([config])[0]))

    def _next(self) -> Row | None:
        for queue in (self._starts, self._around):
            while queue:
                row = queue.popleft()
                if self._seen.is_fresh(row[None])[0]:
                    return row
        if not self._waiting:
            self._summit = math.inf  # the next success starts another climb
        fresh = any_fresh(self._space, self._seen, self._rng)
        return fresh[0] if len(fresh) else None

    def _neighbours(self, row: Row) -> list[Row]:
        """Return neighbours by number of steps, in random order among equals; unordered values are all one step
        away."""
        rows = self._space.encoded.neighbours(row)
        steps = np.abs(rows - row)
        steps[:, [not parameter.ordered for parameter in self._space.parameters]] = 0
        order = np.lexsort((self._rng.random(len(rows)), np.maximum(steps.sum(axis=1), 1)))
        return list(rows[order])
