"""What a search has asked for and been told, as rows of its space."""

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
"""How much worse than the slowest success a failure counts, in units of the logarithm of time, before slow times are
drawn in: then it mostly counts like the slowest successes."""
LEAST = 0.01
"""How far above the median times count at least, where most of them are as good as the best."""


class Observations:
    """Remembers rows that were asked for and times that were told.

    Configs that are told without having been asked for (of an earlier run) count as asked. Configs outside the
    space are ignored.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._lattice = space.encoded
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
        """What was told, in order."""
        return np.array(self._rows, dtype=np.int32).reshape(-1, len(self._space.parameters))

    @property
    def pending(self) -> Rows:
        """What was asked for and not told yet."""
        return np.array(list(self._pending.values()), dtype=np.int32).reshape(-1, len(self._space.parameters))

    def ask(self, row: Row) -> Config:
        """Note that a row is asked for; the config that it stands for."""
        key = int(self._lattice.keys(row[None])[0])
        self._asked.add(key)
        self._pending[key] = row
        return self._lattice.config(row)

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Note a verdict."""
        if config not in self._space:
            return
        row = self._lattice.rows([config])[0]
        key = int(self._lattice.keys(row[None])[0])
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
        """Those rows that were not asked for yet."""
        return rows[self.is_fresh(rows)]

    def is_fresh(self, rows: Rows) -> npt.NDArray[np.bool_]:
        asked = self._asked
        keys = self._lattice.keys(rows).tolist()
        return np.fromiter((key not in asked for key in keys), dtype=bool, count=len(keys))

    def leaders(self, count: int) -> Rows:
        """The fastest rows, the fastest first."""
        log_ms = np.array(self._log_ms)
        order = np.argsort(log_ms, kind="stable")[: min(count, int(np.isfinite(log_ms).sum()))]
        return self.rows[order]

    def targets(self) -> Floats:
        """What a cost model is to learn: log times, slow ones and failures drawn in.

        How slow a bad config is says little about where the good ones are, and would take most of a model's
        attention. So times beyond the median count at most as far above it as the best is below.
        """
        log_ms = np.array(self._log_ms)
        right = np.isfinite(log_ms)
        if not right.any():
            return np.zeros(len(log_ms))
        targets = np.where(right, log_ms, np.max(log_ms[right]) + FAILURE)
        median = float(np.median(targets))
        above = max(median - float(targets.min()), LEAST)
        return np.minimum(targets, median + above)
