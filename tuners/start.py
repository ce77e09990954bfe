"""Where searches begin when nothing is known, and where they go when they are stuck."""

from __future__ import annotations

import numpy as np

from ..core import SearchSpace
from ..core.lattice import Rows
from .observations import Observations

CANDIDATES = 2000


def spread(space: SearchSpace, count: int, rng: np.random.Generator) -> Rows:
    """`count` random members, each chosen among several to differ from those before (maximin over values).

    Drawn uniformly, then thinned: of eight random members each time the one is taken that has the most values
    that no earlier one nearby has.
    """
    pool = space.lattice.sample(CANDIDATES, rng)
    pool = pool[rng.permutation(len(pool))]
    chosen = pool[:1]
    rest = pool[1:]
    while len(chosen) < count and len(rest):
        few = rest[:8]
        distance = (few[:, None, :] != chosen[None, :, :]).sum(axis=2).min(axis=1)
        best = int(np.argmax(distance))
        chosen = np.concatenate([chosen, few[best : best + 1]])
        rest = np.concatenate([np.delete(few, best, axis=0), rest[8:]])[: len(rest)]
    return chosen


def any_fresh(space: SearchSpace, seen: Observations, rng: np.random.Generator) -> Rows:
    """One member that was not asked for yet, drawn uniformly; no row when there is none left."""
    for _ in range(8):
        rows = seen.fresh(space.lattice.sample(64, rng) if space.lattice.members is None else _draw(space, 64, rng))
        if len(rows):
            return rows[:1]
    members = space.lattice.members
    if members is None:
        return np.zeros((0, len(space.parameters)), dtype=np.int32)
    left = seen.fresh(members)
    return left[rng.integers(len(left))][None] if len(left) else left


def _draw(space: SearchSpace, count: int, rng: np.random.Generator) -> Rows:
    members = space.lattice.members
    assert members is not None
    return members[rng.integers(len(members), size=count)]
