"""The tuners by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core import Config, OptionError, Profile, SearchSpace, Tuner

if TYPE_CHECKING:
    from .hardware import TileModel

Warm = Sequence[tuple[Config, float | None]]
"""Configs with their times in milliseconds from elsewhere, None for a failure."""

DEFAULT = "portfolio"


def names() -> list[str]:
    """The names of all tuners."""
    return list(_MAKERS)


def create(
    name: str,
    space: SearchSpace,
    seed: int = 0,
    warm: Warm = (),
    start: Sequence[Config] = (),
    profile: Profile | None = None,
) -> Tuner:
    """A tuner of a space by its name; an unknown one raises `OptionError`.

    `warm` is what the same parameters did on another device or for another shape, `start` are configs to try first,
    `profile` tells the problem's extents and the device's limits. Grid, random and annealing use none of them.
    """
    if name not in _MAKERS:
        raise OptionError(f"there is no tuner {name!r}; use one of {', '.join(names())}")
    return _MAKERS[name](Task(space, seed, warm, start, profile))


def adaptive(name: str) -> bool:
    """Whether what a tuner asks for depends on what it is told."""
    return name not in ("grid", "random")


def preload(name: str) -> None:
    """Import what a tuner computes with, which takes seconds: to be done while something else is waited for."""
    for module in _LIBRARIES.get(name, ()):
        importlib.import_module(module)


_LIBRARIES = {
    "portfolio": ("xgboost", "scipy.optimize", "scipy.special", "threadpoolctl"),
    "xgboost": ("xgboost",),
}


@dataclass(frozen=True)
class Task:
    """What a tuner is made from."""

    space: SearchSpace
    seed: int
    warm: Warm
    start: Sequence[Config]
    profile: Profile | None

    def known_fast(self, count: int) -> list[Config]:
        """Configs to begin with: the given ones, then the fastest elsewhere."""
        return [*self.start, *fastest(self.warm, count)]

    def tiles(self) -> list[TileModel]:
        """The model of tiles, where one applies."""
        from .hardware import TileModel

        model = TileModel(self.space, self.profile)
        return [model] if model.usable else []


def _grid(task: Task) -> Tuner:
    from .grid import Grid

    return Grid(task.space)


def _random(task: Task) -> Tuner:
    from .random_search import RandomSearch

    return RandomSearch(task.space, task.seed)


def _hill_climb(task: Task) -> Tuner:
    from .hill_climb import HillClimb

    return HillClimb(task.space, task.known_fast(3), task.seed)


def _annealing(task: Task) -> Tuner:
    from .annealing import Annealing

    return Annealing(task.space, task.seed)


def _xgboost(task: Task) -> Tuner:
    from .xgboost_search import XGBoostSearch

    return XGBoostSearch(task.space, task.seed, task.known_fast(8), task.tiles())


def _portfolio(task: Task) -> Tuner:
    from .portfolio import Portfolio

    return Portfolio(task.space, task.seed, task.start, task.warm, next(iter(task.tiles()), None))


_MAKERS: dict[str, Callable[[Task], Tuner]] = {
    "portfolio": _portfolio,
    "xgboost": _xgboost,
    "hill_climb": _hill_climb,
    "annealing": _annealing,
    "random": _random,
    "grid": _grid,
}


def fastest(warm: Warm, count: int) -> list[Config]:
    """The configs that were fastest elsewhere."""
    timed = sorted((ms, i) for i, (_, ms) in enumerate(warm) if ms is not None)
    return [warm[i][0] for _, i in timed[:count]]
