"""Hill climbing from good starting points, one step in one parameter at a time."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterable

from ..core import Config, Evaluation, SearchSpace


class HillClimb:
    """Asks for the neighbours of the best config so far; random members when it has none left.

    The first configs are `start`, by default the space's own. Deterministic given `seed`.
    """

    def __init__(self, space: SearchSpace, start: Iterable[Config] = (), seed: int = 0) -> None:
        self._space = space
        self._rng = random.Random(seed)
        self._queue = deque(dict.fromkeys(config for config in start if config in space) or [space.default])
        self._asked: set[Config] = set()
        self._best: tuple[float, Config] | None = None

    def ask(self, n: int = 1) -> list[Config]:
        """Up to n configs not asked for before; empty when the space is exhausted."""
        asked: list[Config] = []
        while len(asked) < n:
            config = self._next()
            if config is None:
                break
            self._asked.add(config)
            asked.append(config)
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Move to the config if it is the best so far."""
        latency = evaluation.latency_ms if evaluation.latency_ms is not None else math.inf
        if latency < (self._best[0] if self._best else math.inf):
            self._best = (latency, config)
            neighbours = self._space.neighbours(config)
            self._rng.shuffle(neighbours)
            self._queue.extendleft(reversed(neighbours))

    def _next(self) -> Config | None:
        while self._queue:
            config = self._queue.popleft()
            if config not in self._asked:
                return config
        for _ in range(100):
            config = self._space.sample(self._rng)
            if config not in self._asked:
                return config
        return next((config for config in self._space if config not in self._asked), None)
