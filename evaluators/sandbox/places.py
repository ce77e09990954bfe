"""Files that untrusted code may read: all of the system's, and of the user's only those that run it.

Hidden are the home folders, the temporary ones, where services listen (/run), the working folder and this package's
own checkout, which may contain keys and results. Shown again are the Python environment, the parts of this package
that a worker imports, and compilers, wherever they are.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).parents[2]
_PARTS = ("__init__.py", "core", "evaluators")
_SYSTEM = tuple(map(Path, ("/usr", "/etc", "/opt", "/proc", "/sys", "/dev", "/nix", "/lib", "/bin")))
_USERS = tuple(map(Path, ("/home", "/root", "/tmp", "/var/tmp", "/run")))
_PROC = (
    "self",
    "cpuinfo",
    "devices",
    "driver",
    "filesystems",
    "loadavg",
    "meminfo",
    "stat",
    "sys",
    "uptime",
    "version",
)
_COMPILERS = ("g++", "gcc", "cc", "clang", "nvcc", "ptxas")


@dataclass(frozen=True)
class Places:
    """Hidden folders and shown paths; the deepest entry decides."""

    hidden: tuple[Path, ...]
    """Real paths of hidden folders."""
    shown: tuple[Path, ...]
    """Shown paths as the interpreter names them, and their targets."""

    @classmethod
    def of_this_process(cls) -> Places:
        """Return the places for processes that this one starts, as its user, with its environment."""
        hidden = set(_hidden())
        shown = {path for path in _shown() if path.exists()} - hidden
        return cls(tuple(sorted(hidden)), tuple(sorted(shown)))

    def in_order(self) -> list[tuple[Path, bool]]:
        """Return each place that differs from its parent, and whether it is shown, outer ones first."""
        places = dict.fromkeys(self.shown, True) | dict.fromkeys(self.hidden, False)
        found: dict[Path, bool] = {}
        for path, shown in sorted(places.items(), key=lambda place: len(place[0].parts)):
            around = next((found[parent] for parent in path.parents if parent in found), True)
            if shown != around:
                found[path] = shown
        return list(found.items())

    def readable(self) -> list[Path]:
        """Return the shown places as files and folders that may be read with everything below them.

        Of /proc it contains the description of the machine and of the reading process; of /dev nothing.
        """
        real = {path: shown for path, shown in self.in_order() if path == path.resolve()}
        real |= {Path("/proc"): False, Path("/dev"): False}
        return [*_walk(Path("/"), True, real), *(Path("/proc", name) for name in _PROC)]


def _hidden() -> Iterator[Path]:
    package = _PACKAGE.resolve()
    keep = (*_SYSTEM, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
    for path in {one.resolve() for one in (Path.home(), Path.cwd(), Path(tempfile.gettempdir()), *_USERS)}:
        if path.is_dir() and path != Path("/") and not any(_related(path, one) for one in keep):
            yield path
    yield package


def _related(path: Path, other: Path) -> bool:
    """Return whether hiding `path` would also hide `other`: it is the same, lies inside, or contains the system's."""
    return path == other or other in path.parents or (other in _SYSTEM and path in other.parents)


def _shown() -> Iterator[Path]:
    found = [Path(sys.prefix), Path(sys.base_prefix), *(Path(entry) for entry in sys.path)]
    found += [_PACKAGE / part for part in _PARTS]
    for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"):
        found += [Path(entry) for entry in os.environ.get(name, "").split(os.pathsep)]
    found += [Path(where).resolve().parent for name in _COMPILERS if (where := shutil.which(name))]
    for path in found:
        if path.is_absolute():
            yield path
            yield path.resolve()


def _walk(path: Path, visible: bool, places: Mapping[Path, bool]) -> Iterator[Path]:
    """Yield the readable paths from `path` down, in as few pieces as the places allow."""
    visible = places.get(path, visible)
    inside = [place for place in places if path in place.parents]
    if not inside:
        if visible:
            yield path
        return
    children = {path / place.relative_to(path).parts[0] for place in inside}
    if visible and os.access(path, os.R_OK):
        # Whether a link's target is readable depends on the target's own place.
        children |= {child for child in path.iterdir() if not child.is_symlink()}
    for child in sorted(children):
        yield from _walk(child, visible, places)
