"""The requests and results of a search, as rows of its space."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..core import Config, Evaluation, SearchSpace
from ..core.encoded_space import Rows

Floats = npt.NDArray[np.float64]
Row = npt.NDArray[np.int32]
"""One config as positions of its values."""

FAILURE = 0.2
"""A failure counts this much worse than the slowest success, in units of the logarithm of time, before slow times are
compressed: then it mostly counts like the slowest successes."""
LEAST = 0.01
"""Minimum distance above the median at which times are clipped, if most are as good as the best."""


class Observations:
    """Stores the requested rows, and the times reported for them.

    Configs that are reported without a request (of an earlier run) count as asked for. Configs outside the space are
    ignored.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._encoded = space.encoded
        self._asked: set[int] = set()
        self._told: set[int] = set()
        self._rows: list[Row] = []
        self._log_ms: list[float] = []
        self._pending: dict[int, Row] = {}
        self.best: Row | None = None
        self.best_log_ms = math.inf

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Rows:
        """The reported rows, in order."""
        return np.array(self._rows, dtype=np.int32).reshape(-1, len(self._space.parameters))

    @property
    def pending(self) -> Rows:
        """The requested rows without a result."""
        return np.array(list(self._pending.values()), dtype=np.int32).reshape(-1, len(self._space.parameters))

    def ask(self, row: Row) -> Config:
        """Record the request of a row; return its config."""
        key = int(self._encoded.keys(row[None])[0])
        self._asked.add(key)
        self._pending[key] = row
        return self._encoded.config(row)

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Record a result."""
        if config not in self._space:
            return
        row = self._encoded.rows([config])[0]
        key = int(self._encoded.keys(row[None])[0])
        self._asked.add(key)
        self._pending.pop(key, None)
        if key in self._told:
            return
        self._told.add(key)
        log_ms = math.log(evaluation.latency_ms) if evaluation.latency_ms else math.nan
        self._rows.append(row)
        self._log_ms.append(log_ms)
        if log_ms < self.best_log_ms:
            self.best, self.best_log_ms = row, log_ms

    def fresh(self, rows: Rows) -> Rows:
        """Return the rows that were not requested yet."""
        return rows[self.is_fresh(rows)]

    def is_fresh(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows that were not requested yet."""
        asked = self._asked
        keys = self._encoded.keys(rows).tolist()
        return np.fromiter((key not in asked for key in keys), dtype=bool, count=len(keys))

    def leaders(self, count: int) -> Rows:
        """Return the fastest rows, the fastest first."""
        log_ms = np.array(self._log_ms)
        order = np.argsort(log_ms, kind="stable")[: min(count, int(np.isfinite(log_ms).sum()))]
        return self.rows[order]

    def targets(self) -> Floats:
        """Return the targets of a cost model: log times, with slow ones and failures compressed.

        How slow a bad config is tells little about the good ones, and would dominate a model. So times beyond the
        median count at most as far above it as the best is below.
        """
        log_ms = np.array(self._log_ms)
        succeeded = np.isfinite(log_ms)
        if not succeeded.any():
            return np.zeros(len(log_ms))
        targets = np.where(succeeded, log_ms, np.max(log_ms[succeeded]) + FAILURE)
        median = float(np.median(targets))
        above = max(median - float(targets.min()), LEAST)
        return np.minimum(targets, median + above)
