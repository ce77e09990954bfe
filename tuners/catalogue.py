"""The tuners by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core import Config, OptionError, Profile, SearchSpace, Tuner
from .annealing import Annealing
from .grid import Grid
from .hardware import TileModel
from .hill_climb import HillClimb
from .portfolio import Portfolio
from .random_search import RandomSearch
from .start import Warm, begin, fastest
from .xgboost_search import XGBoostSearch

DEFAULT = "portfolio"


@dataclass(frozen=True)
class Arguments:
    """The arguments of a tuner; see `create`."""

    space: SearchSpace
    seed: int
    warm: Warm
    start: Sequence[Config]
    profile: Profile | None
    stride: int

    def known_fast(self, count: int) -> list[Config]:
        """Return configs to begin with: the given ones, and this many of the fastest elsewhere."""
        return begin(self.start, fastest(self.warm, count, self.space))

    @property
    def tiles(self) -> TileModel | None:
        """Return the model of tiles, where one applies."""
        return TileModel.of(self.space, self.profile)


@dataclass(frozen=True)
class Entry:
    """A tuner, and its properties in any space."""

    make: Callable[[Arguments], Tuner]
    adaptive: bool = True
    exhaustive: bool = False
    libraries: tuple[str, ...] = ()
    """Modules that it computes with, imported when first needed."""


_TUNERS = {
    "portfolio": Entry(
        lambda task: Portfolio(task.space, task.seed, task.start, task.warm, task.tiles),
        libraries=("xgboost", "scipy.optimize", "scipy.special", "threadpoolctl"),
    ),
    "xgboost": Entry(
        lambda task: XGBoostSearch(task.space, task.seed, task.known_fast(8), task.tiles),
        libraries=("xgboost",),
    ),
    "hill_climb": Entry(lambda task: HillClimb(task.space, task.seed, task.known_fast(3))),
    "annealing": Entry(lambda task: Annealing(task.space, task.seed, task.known_fast(3))),
    "random": Entry(lambda task: RandomSearch(task.space, task.seed), adaptive=False),
    "grid": Entry(lambda task: Grid(task.space, task.stride), adaptive=False, exhaustive=True),
}


def names() -> list[str]:
    """Return the names of all tuners."""
    return list(_TUNERS)


def check(name: str) -> None:
    """Raise `OptionError` for an unknown name, as all functions below do."""
    if name not in _TUNERS:
        raise OptionError(f"there is no tuner {name!r}; use one of {', '.join(names())}")


def create(
    name: str,
    space: SearchSpace,
    seed: int = 0,
    warm: Warm = (),
    start: Sequence[Config] = (),
    profile: Profile | None = None,
    stride: int = 1,
) -> Tuner:
    """Create a tuner for a space by its name.

    `warm` are times of the same parameters on another device or for another shape, `start` are configs to try first,
    `profile` has the problem's extents and the device's limits. The portfolio and xgboost use all three, hill climbing
    and annealing the first two, grid and random none. `stride` is the grid's.
    """
    return _entry(name).make(Arguments(space, seed, warm, start, profile, stride))


def adaptive(name: str) -> bool:
    """Return whether a tuner's requests depend on the results it gets."""
    return _entry(name).adaptive


def exhaustive(name: str) -> bool:
    """Return whether a tuner is meant to try every config."""
    return _entry(name).exhaustive


def preload(name: str) -> None:
    """Import a tuner's modules, which takes seconds; call this while waiting for something else."""
    for module in _entry(name).libraries:
        importlib.import_module(module)


def _entry(name: str) -> Entry:
    check(name)
    return _TUNERS[name]
