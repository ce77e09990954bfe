"""What other packages add to kernelwright: one mechanism for all groups of entry points.

A package names an object, or a module, in its metadata, such as `[project.entry-points."kernelwright.tuners"]`.
Names are known without an import of the package; it is imported when one of its entries is used. This module imports
nothing heavy: help lists names, and every process that knows kernel languages needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .core.errors import OptionError

T = TypeVar("T")


@dataclass(frozen=True)
class EntryGroup(Generic[T]):
    """A group of entry points, and what each of its entries must be."""

    name: str
    """'kernelwright.tuners'."""
    what: str
    """'tuner', in messages."""
    kind: type[T]
    """The class of its objects, or a protocol that can be checked at run time."""
    kind_name: str
    """'kernelwright.TunerEntry', in messages."""
    variable: str = ""
    """An environment variable that names modules which no package declares."""

    @property
    def points(self) -> tuple[EntryPoint, ...]:
        """The group's entry points in the order of `sys.path`; nothing is imported."""
        return points_of(self.name)

    @property
    def names(self) -> dict[str, str]:
        """The names of its entries, each with the package: 'of toy 1.0'."""
        return names_of(self.name)

    def find(self, name: str, built_in: Mapping[str, T]) -> T:
        """Return what has a name that `built_in` or an entry has.

        Raises `OptionError` as `load`, and where an entry has the name of another one.
        """
        points = [point for point in self.points if point.name == name]
        if points and (name in built_in or len(points) > 1):
            raise self.broken(points[-1], f"has the name of another {self.what}")
        return self.load(points[0]) if points else built_in[name]

    def load(self, point: EntryPoint) -> T:
        """Import an entry. Raises `OptionError`, which names the distribution, where it cannot be or is another thing.

        Whatever a package raises while it is imported becomes one line.
        """
        try:
            found = point.load()
        except (Exception, SystemExit) as error:
            raise self.broken(point, f"cannot be loaded ({type(error).__name__}: {error})") from error
        if isinstance(found, type) or not isinstance(found, self.kind):
            actual = f"the class {found.__name__}" if isinstance(found, type) else f"of type {type(found).__name__}"
            raise self.broken(point, f"is not a {self.kind_name}: it is {actual}")
        return found

    def broken(self, point: EntryPoint, why: str) -> OptionError:
        """Return an error about an entry, of one line; `why` follows the entry's name and place."""
        from .core.errors import OptionError

        place = f"of {package_of(point)}, {point.value}," if point.dist else f"in {point.value}"
        remedy = f"uninstall {point.dist.name}" if point.dist else f"take it out of {self.variable}"
        return OptionError(f"the {self.what} {point.name} {place} {' '.join(why.split())}", f"fix it, or {remedy}")


def points_of(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group in the order of `sys.path`; nothing is imported."""
    return tuple(_entry_points(tuple(sys.path)).select(group=group))


def names_of(group: str) -> dict[str, str]:
    """The names of a group's entries, each with the package: 'of toy 1.0'."""
    return {point.name: f"of {package_of(point)}" for point in points_of(group)}


def package_of(point: EntryPoint) -> str:
    """The distribution that an entry point comes from, with its version: 'toy 1.0'."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else ""


@lru_cache(maxsize=1)
def _entry_points(path: tuple[str, ...]) -> Any:
    """The entry points of all packages of `path`: reading their metadata takes long."""
    from importlib.metadata import entry_points

    return entry_points()
