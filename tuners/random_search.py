"""Members of the space by chance: what every other tuner has to beat."""

from __future__ import annotations

import numpy as np

from ..core import Config, Evaluation, SearchSpace
from .observations import Observations


class RandomSearch:
    """Uniform, without repetition. Deterministic given `seed`."""

    def __init__(self, space: SearchSpace, seed: int = 0) -> None:
        self._lattice = space.lattice
        self._rng = np.random.default_rng(seed)
        self._seen = Observations(space)
        members = self._lattice.members
        self._order = None if members is None else iter(members[self._rng.permutation(len(members))])

    def ask(self, n: int = 1) -> list[Config]:
        """Up to n configs not asked for before; empty when the space is exhausted."""
        asked: list[Config] = []
        while len(asked) < n:
            if self._order is not None:
                row = next(self._order, None)
                if row is None:
                    break
                rows = row[None]
            else:
                rows = self._lattice.sample(n, self._rng)
            asked += [self._seen.ask(row) for row in self._seen.fresh(rows)[: n - len(asked)]]
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Chance learns nothing, but does not ask again for what an earlier run has measured."""
        self._seen.tell(config, evaluation)
