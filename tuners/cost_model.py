"""A cost model of boosted trees: an ensemble whose members see different parts of the data."""

from __future__ import annotations

import numpy as np

from .observations import Floats

ROUNDS = 60
MEMBERS = 3
THREADS = 1
"""The data is small and compilers keep the cores busy: more threads would mostly wait for each other."""
TREES = {
    "max_depth": 6,
    "eta": 0.2,
    "subsample": 0.8,
    "colsample_bynode": 0.5,
    "min_child_weight": 1,
    "nthread": THREADS,
    "verbosity": 0,
}


class CostModel:
    """Predicts by the mean of its members."""

    def __init__(self, features: Floats, targets: Floats, seed: int) -> None:
        import xgboost

        data = xgboost.DMatrix(features, targets, nthread=THREADS)
        self._members = [
            xgboost.train({**TREES, "seed": seed + member}, data, num_boost_round=ROUNDS) for member in range(MEMBERS)
        ]

    def __call__(self, features: Floats) -> Floats:
        """Return one prediction per row of features."""
        import xgboost

        data = xgboost.DMatrix(features, nthread=THREADS)
        return np.asarray(np.mean([member.predict(data) for member in self._members], axis=0), dtype=np.float64)
