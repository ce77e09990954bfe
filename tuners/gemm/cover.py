"""Few configs for many shapes, and the rule that chooses among them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Generic, TypeVar

from ...core import Config

S = TypeVar("S")
Times = Mapping[S, Mapping[Config, float]]
"""Times of configs at each shape in milliseconds, without configs that failed or were not measured there."""
CANDIDATES = 64
"""Maximum number of candidates for the set: configs that are best, or nearly best, at some shape."""


@dataclass(frozen=True)
class Cover(Generic[S]):
    """At most k configs for all shapes."""

    configs: tuple[Config, ...]
    chosen: Mapping[S, Config]
    """The best of them for each shape."""
    slowdown: float
    """Geometric mean, over all shapes, of its time over the best time there."""
    worst: float
    """The largest of these ratios."""


def losses(times: Times[S]) -> dict[S, dict[Config, float]]:
    """Return, for each shape and config, the logarithm of its time over the best there."""
    return {
        shape: {config: math.log(ms / min(row.values())) for config, ms in row.items()} for shape, row in times.items()
    }


def best_for_all(times: Times[S]) -> Config | None:
    """Return the config with the least loss over all shapes; None if no config was measured at all of them."""
    lost = losses(times)
    shared = set.intersection(*(set(row) for row in lost.values()))
    return min(shared, key=lambda config: sum(row[config] for row in lost.values()), default=None)


def cover(times: Times[S], most: int) -> Cover[S] | None:
    """Return the set of at most `most` configs with the least loss; None if no such set serves every shape.

    One config after the other joins, the one that helps most; then each is exchanged while that helps.
    """
    lost = {shape: row for shape, row in losses(times).items() if row}
    if not lost:
        return None
    candidates = _candidates(lost)
    chosen: list[Config] = []
    while len(chosen) < most:
        best = min(candidates, key=lambda config: _total(lost, [*chosen, config]))
        if chosen and _total(lost, [*chosen, best]) >= _total(lost, chosen):
            break
        chosen.append(best)
    improved = True
    while improved:
        improved = False
        for place, config in product(range(len(chosen)), candidates):
            other = [*chosen[:place], config, *chosen[place + 1 :]]
            if _total(lost, other) < _total(lost, chosen) - 1e-12:
                chosen, improved = other, True
    # Exchanges may have left one without use.
    for config in list(chosen):
        rest = [item for item in chosen if item is not config]
        if rest and _total(lost, rest) <= _total(lost, chosen):
            chosen = rest
    if any(not set(row) & set(chosen) for row in lost.values()):
        return None
    picked = {shape: min((c for c in chosen if c in row), key=row.__getitem__) for shape, row in lost.items()}
    each = [lost[shape][config] for shape, config in picked.items()]
    return Cover(tuple(chosen), picked, math.exp(sum(each) / len(each)), math.exp(max(each)))


def _candidates(lost: Mapping[S, Mapping[Config, float]]) -> list[Config]:
    """Return the candidates: configs that serve most shapes, the least loss first."""
    worst = 1.0 + max(max(row.values()) for row in lost.values())
    everything = dict.fromkeys(config for row in lost.values() for config in row)
    scores = {config: sum(row.get(config, worst) for row in lost.values()) for config in everything}
    best_somewhere = {min(row, key=row.__getitem__) for row in lost.values()}
    return sorted(everything, key=lambda config: (config not in best_somewhere, scores[config]))[:CANDIDATES]


def _total(lost: Mapping[S, Mapping[Config, float]], chosen: Sequence[Config]) -> float:
    # An unserved shape counts more than any loss.
    return sum(min((row[config] for config in chosen if config in row), default=1e3) for row in lost.values())
