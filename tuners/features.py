"""The features of a config for a cost model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core import SearchSpace
from ..core.encoded_space import Rows
from .observations import Floats

PAIRED = 20
"""Parameters whose products and ratios are features; more would drown the model."""

Derived = Callable[[Rows], Floats]
"""Further columns, computed from rows."""


class Features:
    """Columns for a cost model: each parameter's encoding, and the derived columns.

    `paired` adds, for ordered parameters, logarithms of all products and ratios of two: a block has as many threads
    as the product of its sides, and a thread as much work as a ratio, and trees cannot multiply.
    """

    def __init__(self, space: SearchSpace, derived: Derived | None = None, paired: bool = False) -> None:
        self._encoded = space.encoded
        self._derived = derived
        self._varying = [i for i, parameter in enumerate(space.parameters) if len(parameter.values) > 1]
        ordered = [i for i in self._varying if space.parameters[i].ordered]
        pairs = [(a, b) for at, a in enumerate(ordered) for b in ordered[:at]] if paired else []
        self._pairs = np.array(pairs if len(ordered) <= PAIRED else [], dtype=np.int64).reshape(-1, 2)

    def __call__(self, rows: Rows) -> Floats:
        """Return features of shape (rows, columns)."""
        encoded = self._encoded.encode(rows)
        left, right = encoded[:, self._pairs[:, 0]], encoded[:, self._pairs[:, 1]]
        own = encoded[:, self._varying]
        further = [] if self._derived is None else [self._derived(rows)]
        return np.hstack([own, left + right, left - right, *further])
