"""Files that untrusted code may read: those that run it and its compilers, and nothing else.

That is the Python environment, the parts of this package that a worker imports, compilers with their libraries, the
system's programs and libraries, and what these read of /etc, /proc and /sys. The working folder, the user's home and
this package's own checkout, which may contain keys and results, stay hidden even where they lie inside one of these.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...core import known_languages
from ..devices import supports

_PACKAGE = Path(__file__).parents[2]
_PARTS = ("__init__.py", "entry_points.py", "core", "evaluators")
_ROOT = Path("/")

_INSTALLED = (
    "bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share", "nvvm", "targets", "extras", "pyvenv.cfg",
    "*-linux-gnu*",
)  # fmt: skip
"""Entries of a program's installation folder; everything else in it may be a user's."""
_STORES = tuple(map(Path, ("/nix/store", "/gnu/store", "/cvmfs")))
"""Where package managers keep each program in a folder of its own, which only names others."""
_ETC = (
    "ld.so.*", "alternatives", "nsswitch.conf", "passwd", "group", "localtime", "timezone", "locale.*", "os-release",
    "python3*", "ssl/openssl.cnf", "pki/tls/openssl.cnf", "crypto-policies", "nvidia", "OpenCL",
)  # fmt: skip
_SYS = ("devices", "bus", "class", "module", "kernel/mm", "fs/cgroup")
_SERIAL_NUMBERS = Path("/sys/devices/virtual/dmi")
_PROC = (
    "self", "cpuinfo", "devices", "driver", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version",
)  # fmt: skip
_COMPILERS = ("g++", "gcc", "cc", "clang", "clang++", "nvcc", "ptxas", "ninja", "ld", "as")
_NAMING_COMPILERS = ("CC", "CXX", "CUDACXX", "PYTORCH_NVCC", "TRITON_PTXAS_PATH")
_NAMING_TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "ROCM_HOME", "HIP_PATH")
_NAMING_FOLDERS = (
    "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH",
    "TVM_LIBRARY_PATH", "TL_TEMPLATE_PATH", "TL_CUTLASS_PATH",
)  # fmt: skip
_LIBRARIES = ("torch", "numpy")
"""Packages that workers import in addition to the languages."""


@dataclass(frozen=True)
class Places:
    """Shown paths and hidden ones; the deepest entry decides, and what is below none is hidden."""

    hidden: tuple[Path, ...]
    """Real paths of hidden folders."""
    shown: tuple[Path, ...]
    """Shown paths as programs name them, and their targets."""

    @classmethod
    def of_this_process(cls) -> Places:
        """Return the places for processes that this one starts, as its user, with its environment."""
        needed = set(_with_targets(_needed()))
        hidden = set(_hidden()) - needed
        imported = set(_with_targets(_imported(hidden, needed))) - hidden
        return cls(tuple(sorted(hidden)), tuple(sorted(needed | imported)))

    def in_order(self) -> list[tuple[Path, bool]]:
        """Return each place that differs from its parent, and whether it is shown, outer ones first."""
        places = dict.fromkeys(self.shown, True) | dict.fromkeys(self.hidden, False)
        found: dict[Path, bool] = {}
        for path, shown in sorted(places.items(), key=lambda place: len(place[0].parts)):
            around = next((found[parent] for parent in path.parents if parent in found), False)
            if shown != around:
                found[path] = shown
        return list(found.items())

    def readable(self) -> list[Path]:
        """Return the shown places as files and folders that may be read with everything below them.

        Of /proc it contains the description of the machine and of the reading process; of /dev nothing.
        """
        real = {path: shown for path, shown in self.in_order() if path == path.resolve()}
        towards: dict[Path, set[Path]] = {}  # by folder: the entries in it that are a place, or have one below them
        for place in real:
            for child, folder in zip((place, *place.parents), place.parents, strict=False):
                towards.setdefault(folder, set()).add(child)
        return [*_walk(_ROOT, False, real, towards), *(Path("/proc", name) for name in _PROC)]


def link_package(folder: Path) -> None:
    """Make this package importable from a folder, also where no program may list the one that it lies in."""
    (own := folder / __name__.partition(".")[0]).mkdir(parents=True)
    for part in _PARTS:
        (own / part).symlink_to((_PACKAGE / part).resolve())


def _hidden() -> Iterator[Path]:
    folders = [Path.home(), Path.cwd(), Path(tempfile.gettempdir()), _SERIAL_NUMBERS, _PACKAGE]
    with contextlib.suppress(KeyError):  # a number without a user, as in containers
        folders.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    for path in folders:
        if (real := path.resolve()).is_dir() and real != _ROOT:
            yield real


def _needed() -> Iterator[Path]:
    """Yield what stays shown even if it is the working folder or the user's home."""
    prefixes = [Path("/"), Path("/usr"), Path("/usr/local"), *_toolkits()]
    prefixes += [Path(sys.prefix), Path(sys.base_prefix)]
    prefixes += [Path(os.environ[name]) for name in _NAMING_TOOLKITS if os.environ.get(name)]
    named = [os.environ[name].split()[0] for name in _NAMING_COMPILERS if os.environ.get(name, "").split()]
    for where in filter(None, map(shutil.which, (*_COMPILERS, *named))):
        for program in {Path(where), Path(where).resolve()}:
            yield program
            if program.parent.name == "bin":
                prefixes.append(program.parents[1])
    for prefix in prefixes:
        if prefix.is_absolute():
            yield from (found for name in _INSTALLED for found in prefix.glob(name))
            if (prefix / ".spack").exists():
                yield prefix.resolve().parent
    yield from _STORES
    yield from (found for name in _ETC for found in Path("/etc").glob(name))
    yield from (Path("/sys", name) for name in _SYS)
    yield from (_PACKAGE / part for part in _PARTS)


def _toolkits() -> Iterator[Path]:
    for pattern in (pattern for support in supports() for pattern in support.installed):
        yield from _ROOT.glob(pattern.lstrip("/"))


def _imported(hidden: set[Path], needed: set[Path]) -> Iterator[Path]:
    """Yield what workers import or load, except for what is itself a hidden place, or around one."""
    for name in _NAMING_FOLDERS:
        yield from _apart(hidden, (Path(entry) for entry in os.environ.get(name, "").replace(" ", ":").split(":")))
    yield from _apart(hidden, _loaders_folders())
    for entry in _apart(hidden, map(Path, sys.path)):
        if not needed.isdisjoint((entry, *entry.parents)):  # of the Python environment itself
            continue
        if entry.name in ("site-packages", "dist-packages") or not entry.is_dir():
            yield entry
        else:  # a folder of the user's, with more than modules in it
            yield from _apart(hidden, filter(_is_module, _listed(entry)))
    languages = (module for language in known_languages() for module in language.modules)
    for library in {name.partition(".")[0] for name in (*_LIBRARIES, *languages)}:
        spec = importlib.util.find_spec(library)  # of an editable installation, which may be anywhere
        yield from _apart(hidden, map(Path, (spec and spec.submodule_search_locations) or ()))


def _apart(hidden: set[Path], paths: Iterator[Path]) -> Iterator[Path]:
    for path in paths:
        real = path.resolve()
        if not any(real == item or real in item.parents for item in hidden):
            yield path


def _loaders_folders() -> Iterator[Path]:
    """Yield the folders that the system's loader looks for libraries in."""
    for file in (Path("/etc/ld.so.conf"), *_listed(Path("/etc/ld.so.conf.d"))):
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        yield from (Path(line.strip()) for line in lines if line.startswith("/"))


def _is_module(path: Path) -> bool:
    """Return whether a module, its metadata, or the libraries that a wheel brings for it (`pyzmq.libs`)."""
    known = (".py", ".so", ".dist-info", ".egg-info", ".libs")
    return path.suffix in known or (path / "__init__.py").exists()


def _with_targets(paths: Iterator[Path]) -> Iterator[Path]:
    """Yield those paths that exist, and the targets of links."""
    for path in paths:
        if path.is_absolute() and path.exists():
            yield path
            yield path.resolve()


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _walk(path: Path, visible: bool, places: Mapping[Path, bool], towards: Mapping[Path, set[Path]]) -> Iterator[Path]:
    """Yield the readable paths from `path` down, in as few pieces as the places allow."""
    visible = places.get(path, visible)
    children = towards.get(path)
    if children is None:
        if visible:
            yield path
        return
    if visible:
        # Whether a link's target is readable depends on the target's own place.
        children = children | {child for child in _listed(path) if not child.is_symlink()}
    for child in sorted(children):
        yield from _walk(child, visible, places, towards)
