"""The common part of tuners that propose in rounds: a queue of proposals, and the observations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import numpy as np

from ..core import Config, Evaluation, SearchSpace
from .observations import Observations, Row


class Rounds(ABC):
    """Returns the last round's proposals, and starts another round when none is left."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._seen = Observations(space)
        self._queue: deque[Row] = deque()

    @abstractmethod
    def _propose(self) -> list[Row]:
        """Return the next round; empty when the space is exhausted. Repeated proposals are skipped."""

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n new configs; empty if the space is exhausted."""
        asked: list[Config] = []
        while len(asked) < n:
            if not self._queue:
                self._queue.extend(self._propose())
            if not self._queue:
                break
            row = self._queue.popleft()
            if self._seen.is_fresh(row[None])[0]:
                asked.append(self._seen.ask(row))
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Learn a time, or that the config fails."""
        self._seen.tell(config, evaluation)
