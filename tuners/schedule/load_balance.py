"""The load balance of programs that take one tile of queries after another of causal attention.

The tile at place t from the end of its head has t tiles of keys; which program takes it follows from the order of heads
and tiles, as `corpus/kernels/tilelang/attention/attention.py` numbers them.
"""

from __future__ import annotations

import numpy as np

OF_A_TILE = 0.5
"""Fixed cost of a tile of queries, in units of tiles of keys: loading it, and storing its result."""


def largest_load(heads: int, tiles: int, abreast: int, workers: int) -> float:
    """Return the tiles of keys of the program that has most of them."""
    index = np.arange(heads * tiles)
    section, rest = np.divmod(index, abreast * tiles)
    width = np.minimum(abreast, heads - section * abreast)
    lap, place = np.divmod(index, workers)
    # In every other round the other way.
    worker = np.where(lap % 2, workers - 1 - place, place)
    return float(np.bincount(worker, weights=tiles - rest // width + OF_A_TILE).max())


def most_balanced(heads: int, tiles: int, workers: int, most: int) -> int:
    """Return how many heads stand side by side, at most `most`, with the least largest load; few rather."""
    return min(range(1, max(1, min(heads, most)) + 1), key=lambda abreast: largest_load(heads, tiles, abreast, workers))
