"""The default tuner: likely candidates first, then proposals of two models, interleaved with the best's neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core import Config, SearchSpace
from ..core.encoded_space import Rows
from .cost_model import CostModel
from .features import Features
from .gaussian_process import GaussianProcess, log_expected_improvement
from .hardware import TileModel
from .observations import Floats, Row
from .rounds import Rounds
from .start import Warm, any_fresh, begin, diverse, fastest, within

FIRST = 12
"""Configs before the first model: the given ones, then random ones."""
DIVERSE = 6
"""At least this many of them are random: given ones are similar, and teach a model little."""
LIKELY = 10
"""Number of configs that the model of tiles prefers, if there is a model and fewer are given."""
WARM = 6
"""Number of the fastest configs elsewhere that are tried first."""
WARM_DIVERSE = 1
"""Number of random configs after those."""
ROUND = ("improvement", "improvement", "neighbour", "trees")
"""The proposers, in this order, per fit of the models."""
WARM_ROUND = ("neighbour", "neighbour", "improvement", "trees")
"""The proposers after a warm start, which is a good place to climb from."""
CANDIDATES = 4000
"""Members that the models score each time; a fresh sample of larger spaces."""
POINTS = 160
"""Observations that the Gaussian process keeps: its cost grows with their cube."""
GROWTH = 1.05
"""The length scales are fitted again when the number of observations has grown by this factor."""
LEADERS = 3
"""Fast configs whose neighbours are always among the candidates."""
NEAR, FARTHER = 0.7, 0.2
"""Penalty of a candidate's score when a config that differs in one or two parameters is being measured."""
CHANCE = 0.06
"""Share of configs drawn at random: models can be confident and wrong."""


class Portfolio(Rounds):
    """Each round fits both models to the observations and proposes four configs.

    Two have the largest expected improvement by a Gaussian process, one is the best config's neighbour that both models
    together prefer, one is the best by the boosted trees (after a warm start: two neighbours, one each of the others).
    The process estimates its uncertainty and needs few points; the trees model cliffs and products of parameters;
    neighbours finish the search.

    `start` are configs to try first, `tiles` estimates configs of a tiled matrix product: its best follow, with the
    first one's values of what it does not know, and its metrics are features.

    `warm` are times of the same parameters elsewhere: the fastest are tried first. The models do not learn from them:
    on the recorded products, where the ten best of one GPU reach 62 to 87 % on the other, that cost more trials than it
    saved. Deterministic given `seed`.
    """

    def __init__(
        self,
        space: SearchSpace,
        seed: int = 0,
        start: Sequence[Config] = (),
        warm: Warm = (),
        tiles: TileModel | None = None,
    ) -> None:
        super().__init__(space, seed)
        known = fastest(warm, WARM, space)
        self._warm = bool(known)
        self._smooth = Features(space, tiles)
        self._paired = Features(space, tiles, paired=True)
        self._scales: Floats | None = None
        self._scaled_at = 0.0
        first = within(space, begin(start, known))
        if tiles and len(start) < LIKELY:
            likely = tiles.candidates(LIKELY, first[0] if len(first) else None)
            first = space.encoded.unique(np.concatenate([first, likely]))
        few = max(DIVERSE, min(FIRST, 2 + space.cardinality // 8) - len(first))
        self._queue.extend([*first, *diverse(space, WARM_DIVERSE if known else few, self._rng)])

    def _propose(self) -> list[Row]:
        candidates = self._candidates()
        if not len(candidates) or self._rng.random() < CHANCE or self._seen.best is None:
            return list(any_fresh(self._space, self._seen, self._rng))
        trees, mean, promise = self._predict(candidates)
        for row in self._seen.pending:
            promise -= _pending_penalty(candidates, row)
        near = np.flatnonzero((candidates != self._seen.best).sum(axis=1) == 1)
        everywhere = np.arange(len(candidates))
        chosen: list[int] = []
        for who in WARM_ROUND if self._warm else ROUND:
            if who == "improvement":
                which, cost = everywhere, -promise
            else:
                which, cost = (near, mean + trees) if who == "neighbour" else (everywhere, trees)
            left = which[~np.isin(which, chosen)]
            if len(left):
                best = int(left[np.argmin(cost[left])])
                chosen.append(best)
                promise -= _pending_penalty(candidates, candidates[best]) if who == "improvement" else 0.0
        return [candidates[i] for i in chosen]

    def _predict(self, candidates: Rows) -> tuple[Floats, Floats, Floats]:
        """Return the trees' predictions, the process's, and the expected improvement (log)."""
        from threadpoolctl import threadpool_limits

        targets = self._seen.targets()
        seed = int(self._rng.integers(2**31 - 16))
        # As for the trees, see `cost_model.THREADS`.
        with threadpool_limits(1, "blas"):
            trees = CostModel(self._paired(self._seen.rows), targets, seed)(self._paired(candidates))
            return trees, *self._process(targets, candidates)

    def _candidates(self) -> Rows:
        encoded = self._space.encoded
        leaders = [encoded.neighbours(row) for row in self._seen.leaders(LEADERS)]
        rows = np.concatenate([encoded.sample(CANDIDATES, self._rng), *leaders])
        return self._seen.fresh(encoded.unique(rows))

    def _process(self, targets: Floats, candidates: Rows) -> tuple[Floats, Floats]:
        """Return the Gaussian process's means of the candidates, and the logarithms of their expected improvement."""
        known, asked = self._smooth(self._seen.rows), self._smooth(candidates)
        center, width = known.mean(axis=0), known.std(axis=0) + 1e-9
        # The best half and the latest half of the points it may keep.
        keep = np.unique(np.concatenate([np.argsort(targets, kind="stable")[: POINTS // 2],
                                         np.arange(len(targets))[-(POINTS // 2):]]))  # fmt: skip
        known, kept = (known[keep] - center) / width, targets[keep]
        if len(targets) >= self._scaled_at * GROWTH:
            self._scales, self._scaled_at = None, float(len(targets))
        process = GaussianProcess(known, kept, self._scales)
        self._scales = process.scales
        mean, deviation = process((asked - center) / width)
        return mean, log_expected_improvement(mean, deviation, float(targets.min()))


def _pending_penalty(candidates: Rows, row: Row) -> Floats:
    differing = (candidates != row).sum(axis=1)
    return np.where(differing <= 1, NEAR, np.where(differing == 2, FARTHER, 0.0))
