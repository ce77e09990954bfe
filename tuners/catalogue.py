"""The tuners by name: the built-in ones, and those of other packages, which an entry point names."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..core import Config, OptionError, Profile, SearchSpace, Tuner
from ..entry_points import EntryGroup
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
class TunerArguments:
    """Arguments for a tuner, which uses those that it supports. See `create_tuner`."""

    space: SearchSpace
    seed: int = 0
    warm: Warm = ()
    start: Sequence[Config] = ()
    profile: Profile | None = None
    stride: int = 1

    def known_fast(self, count: int) -> list[Config]:
        """Return configs to begin with: the given ones, and this many of the fastest elsewhere."""
        return begin(self.start, fastest(self.warm, count, self.space))

    @property
    def tiles(self) -> TileModel | None:
        """Return the model of tiles, if one applies."""
        return TileModel.of(self.space, self.profile)


@dataclass(frozen=True)
class TunerEntry:
    """A tuner's factory, and its properties in any space."""

    make: Callable[[TunerArguments], Tuner]
    adaptive: bool = True
    """Whether its next configs depend on results."""
    exhaustive: bool = False
    """Whether it tries every config by design."""
    libraries: tuple[str, ...] = ()
    """Modules that it computes with, imported when first needed."""


ENTRIES = EntryGroup("kernelwright.tuners", "tuner", TunerEntry, "kernelwright.TunerEntry")
"""Entry points by which other packages declare tuners: `shuffled = "package.module:shuffled"`."""
_TUNERS = {
    "portfolio": TunerEntry(
        lambda task: Portfolio(task.space, task.seed, task.start, task.warm, task.tiles),
        libraries=("xgboost", "scipy.optimize", "scipy.special", "threadpoolctl"),
    ),
    "xgboost": TunerEntry(
        lambda task: XGBoostSearch(task.space, task.seed, task.known_fast(8), task.tiles),
        libraries=("xgboost",),
    ),
    "hill_climb": TunerEntry(lambda task: HillClimb(task.space, task.seed, task.known_fast(3))),
    "annealing": TunerEntry(lambda task: Annealing(task.space, task.seed, task.known_fast(3))),
    "random": TunerEntry(lambda task: RandomSearch(task.space, task.seed), adaptive=False),
    "grid": TunerEntry(lambda task: Grid(task.space, task.stride), adaptive=False, exhaustive=True),
}


def names() -> list[str]:
    """Return the names of all tuners."""
    return list(choices())


def choices() -> Mapping[str, str]:
    """Return the names of all tuners, each with the package that it is of; '' for a built-in one."""
    return dict.fromkeys(_TUNERS, "") | ENTRIES.names


def check(name: str, more: Sequence[str] = ()) -> None:
    """Raise `OptionError` for an unknown name, as all functions below do; `more` names are known to the caller."""
    if name not in [*names(), *more]:
        raise OptionError(f"there is no tuner {name!r}; use one of {', '.join([*names(), *more])}")


def entry(name: str) -> TunerEntry:
    """Return what makes a tuner. Raises `OptionError` if another package's cannot be loaded."""
    check(name)
    return ENTRIES.find(name, _TUNERS)


def create_tuner(
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
    return entry(name).make(TunerArguments(space, seed, warm, start, profile, stride))


def adaptive(name: str) -> bool:
    """Return whether a tuner's requests depend on the results it gets."""
    return entry(name).adaptive


def exhaustive(name: str) -> bool:
    """Return whether a tuner tries every config by design."""
    return entry(name).exhaustive


def preload(name: str) -> None:
    """Import a tuner's modules, which takes seconds; call this while waiting for something else."""
    for module in entry(name).libraries:
        importlib.import_module(module)
