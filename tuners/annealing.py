"""Simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983), over relative times."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..core import Config, Evaluation, SearchSpace
from ..core.encoded_space import Rows
from .observations import Observations, Row
from .start import any_fresh, within

HOT, COLD = 0.3, 0.01
"""Temperatures in units of the logarithm of time: at first a config 30 % slower is often accepted, at last 1 %."""
MILD = 0.05
"""Initial temperature if start configs are given, so that the walk does not leave a good config at once."""
COOLING = 0.97
"""Cooling factor per step. At the lowest temperature the walk reheats at its current config."""


class Annealing:
    """A random walk over neighbours that accepts worse ones with decreasing probability.

    The first configs are `start`, or a random one. Deterministic given `seed`.
    """

    def __init__(self, space: SearchSpace, seed: int = 0, start: Iterable[Config] = ()) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._seen = Observations(space)
        self._starts = within(space, start)
        self._here: Row | None = None
        self._height = math.inf
        self._temperature = MILD if len(self._starts) else HOT

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n new configs; empty if the space is exhausted."""
        asked: list[Config] = []
        while len(asked) < n and len(row := self._step()):
            asked.append(self._seen.ask(row[0]))
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Move to the config, or stay."""
        self._seen.tell(config, evaluation)
        if config not in self._space or evaluation.latency_ms is None:
            return
        height = math.log(evaluation.latency_ms)
        climb = height - self._height
        if climb <= 0 or self._rng.random() < math.exp(-climb / self._temperature):
            self._here, self._height = self._space.encoded.rows([config])[0], height
        self._temperature *= COOLING
        if self._temperature < COLD:
            self._temperature = HOT

    def _step(self) -> Rows:
        starts = self._seen.fresh(self._starts)
        if len(starts):
            return starts[:1]
        if self._here is not None:
            fresh = self._seen.fresh(self._space.encoded.neighbours(self._here))
            if len(fresh):
                chosen = int(self._rng.integers(len(fresh)))
                return fresh[chosen : chosen + 1]
            self._height = math.inf  # all around is known: continue at the next success
        return any_fresh(self._space, self._seen, self._rng)
