"""What tuners that propose in rounds have in common: a queue of proposals, and a memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import numpy as np

from ..core import Config, Evaluation, SearchSpace
from .observations import Observations, Row


class Rounds(ABC):
    """Hands out what the last round proposed, and starts another when nothing is left."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._seen = Observations(space)
        self._queue: deque[Row] = deque()

    @abstractmethod
    def _propose(self) -> list[Row]:
        """The next round; none when the space is exhausted. Proposals that were asked for before are passed over."""

    def ask(self, n: int = 1) -> list[Config]:
        """Up to n configs not asked for before; empty when the space is exhausted."""
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
