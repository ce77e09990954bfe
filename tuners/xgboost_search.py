"""Search guided by boosted trees, as in AutoTVM (Chen et al., Learning to optimize tensor programs, 2018)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..core import Config, SearchSpace
from ..core.encoded_space import Rows
from .cost_model import CostModel
from .features import Features
from .hardware import TileModel
from .model_annealing import anneal
from .observations import Floats, Row
from .rounds import Rounds
from .start import any_fresh, diverse, within

FIRST = 8
"""Configs before the first model: the given ones, then random ones."""
DIVERSE = 1
"""At least this many of them are random: given ones are similar, and teach a model little."""
BATCH = 4
"""Configs that one model proposes."""
EXPLORED = 0.1
"""Share of a batch that is drawn at random."""
WALKS = 128
NEAR = 2
"""Configs of a batch that differ from the best one in one parameter."""
ALIKE = 2
"""Maximum number of the others that may differ from each other in one parameter only."""


class XGBoostSearch(Rounds):
    """A cost model is fitted to the observations; annealing over its predictions finds the next batch.

    The first configs are `start`, then random ones. The metrics of `tiles` are features. Deterministic given `seed`.
    """

    def __init__(
        self, space: SearchSpace, seed: int = 0, start: Iterable[Config] = (), tiles: TileModel | None = None
    ) -> None:
        super().__init__(space, seed)
        self._features = Features(space, tiles, paired=True)
        first = within(space, start)
        # A small space does not need that many guesses.
        few = min(FIRST, 2 + space.cardinality // 8)
        self._queue.extend([*first, *diverse(space, max(DIVERSE, few - len(first)), self._rng)])

    def _propose(self) -> list[Row]:
        chosen: list[Row] = []
        if len(self._seen) and self._space.cardinality > 1:  # a model needs variation
            chosen = [row for row in self._favourites() if self._rng.random() >= EXPLORED]
        while len(chosen) < BATCH:
            row = any_fresh(self._space, self._seen, self._rng)
            if not len(row):
                break
            chosen.append(row[0])
        return chosen

    def _favourites(self) -> list[Row]:
        """Return the best by a model of all observations: around the best config, and anywhere."""
        encoded = self._space.encoded
        model = CostModel(self._features(self._seen.rows), self._seen.targets(), int(self._rng.integers(2**31 - 16)))

        def predict(rows: Rows) -> Floats:
            return model(self._features(rows))

        near = self._seen.rows[:0]
        if self._seen.best is not None:
            around = self._seen.fresh(encoded.neighbours(self._seen.best))
            near = around[np.argsort(predict(around), kind="stable")[:NEAR]] if len(around) else around
        leaders = self._seen.leaders(WALKS // 4)
        starts = np.concatenate([leaders, encoded.sample(WALKS - len(leaders), self._rng)])
        rows, predicted = anneal(encoded, predict, starts, self._rng)
        fresh = self._seen.is_fresh(rows)
        fastest = rows[fresh][np.argsort(predicted[fresh], kind="stable")]
        return [*near, *_diverse(fastest, near, BATCH - len(near))]


def _diverse(rows: Rows, taken: Rows, count: int) -> list[Row]:
    """Return the first rows that are not taken yet, less those with many near ones among themselves."""
    chosen = rows[:0]
    for row in rows:
        if len(chosen) == count:
            break
        near = ((chosen != row).sum(axis=1) <= 1).sum()
        if near < ALIKE and not (taken == row).all(axis=1).any():
            chosen = np.concatenate([chosen, row[None]])
    return list(chosen)
