"""Random members of the space: the baseline for every other tuner."""

from __future__ import annotations

import numpy as np

from ..core import Config, Evaluation, SearchSpace
from ..core.encoded_space import Rows
from .observations import Observations
from .start import any_fresh


class RandomSearch:
    """Uniform, without repetition. Deterministic given `seed`."""

    def __init__(self, space: SearchSpace, seed: int = 0) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._seen = Observations(space)
        members = space.encoded.members
        self._order = None if members is None else iter(members[self._rng.permutation(len(members))])

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n new configs; empty if the space is exhausted."""
        asked: list[Config] = []
        while len(asked) < n and len(row := self._next()):
            asked.append(self._seen.ask(row[0]))
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Skip a config that an earlier run has measured; random search learns nothing else."""
        self._seen.tell(config, evaluation)

    def _next(self) -> Rows:
        """Return one row that was not requested yet, or none if none is left."""
        if self._order is None:
            return any_fresh(self._space, self._seen, self._rng)
        left = (row[None] for row in self._order if self._seen.is_fresh(row[None])[0])
        return next(left, self._seen.rows[:0])
