"""Start configs of searches, and restarts of stuck ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from ..core import Config, SearchSpace
from ..core.encoded_space import Rows
from .observations import Observations

Warm = Sequence[tuple[Config, float | None]]
"""Configs with their times from elsewhere, None for a failure; only the order of the times is used."""

CANDIDATES = 2000


def fastest(warm: Warm, count: int, space: SearchSpace) -> list[Config]:
    """Return up to `count` different members of the space that were fastest elsewhere, the fastest first."""
    timed = sorted((time, i) for i, (_, time) in enumerate(warm) if time is not None)
    different = dict.fromkeys(warm[i][0] for _, i in timed)
    return list(islice((config for config in different if config in space), count))


def begin(start: Sequence[Config], known: Sequence[Config]) -> list[Config]:
    """Return what a search tries first: the main start, what was fast elsewhere, then further starts, which nobody
    measured."""
    return [*start[:1], *known, *start[1:]]


def within(space: SearchSpace, configs: Iterable[Config]) -> Rows:
    """Return the rows of those configs that are members of the space, each once."""
    return space.encoded.rows(dict.fromkeys(config for config in configs if config in space))


def diverse(space: SearchSpace, count: int, rng: np.random.Generator) -> Rows:
    """Return `count` random members that differ from each other in many parameters; fewer where the space has fewer.

    The first is any member. Each further one is chosen among eight random ones: the one whose nearest predecessor
    differs in the most parameters. The seven others stay, and a new one joins them.
    """
    pool = space.encoded.sample(CANDIDATES, rng)
    pool = pool[rng.permutation(len(pool))]
    chosen, rest = pool[: min(count, 1)], pool[1:]
    while len(chosen) < count and len(rest):
        few = rest[:8]
        distance = (few[:, None, :] != chosen[None, :, :]).sum(axis=2).min(axis=1)
        best = int(np.argmax(distance))
        chosen = np.concatenate([chosen, few[best : best + 1]])
        rest = np.concatenate([np.delete(few, best, axis=0), rest[8:]])
    return chosen


def any_fresh(space: SearchSpace, seen: Observations, rng: np.random.Generator) -> Rows:
    """Return one member that was not asked for yet, drawn uniformly; no row when none is left.

    In a space that is sampled, not listed, none is left when hundreds of draws find none.
    """
    members = space.encoded.members
    for _ in range(8):
        drawn = space.encoded.sample(64, rng) if members is None else members[rng.integers(len(members), size=64)]
        rows = seen.fresh(drawn)
        if len(rows):
            return rows[:1]
    if members is None:
        return rows
    left = seen.fresh(members)
    return left[rng.integers(len(left))][None] if len(left) else left
