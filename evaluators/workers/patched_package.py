"""A user's package with changed files in place of its own, for processes that import it afresh.

The user's files stay as they are: a folder gets the changed files, and links to all others.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...core import ProblemError
from ...core.text import digest_of
from ...core.user_package import UserPackage, read_module
from .removal import remove_tree

ROOM = "make room there, or set TMPDIR to another folder"
_BYTE_CODE = "__pycache__"


def with_texts_in_place(package: UserPackage, folder: Path) -> UserPackage:
    """Return a patched package at places below `folder`, where its modules have their texts; any other as it is.

    Raises `ProblemError` where the folder cannot be written.
    """
    if not package.patched:
        return package
    place = folder / f"patched-{digest_of(package.digest_text)}"
    changed = {item.path: item.text for item in package.modules if read_module(item.path) != item.text}
    found = {top: _place_of(path, package, place) for top, path in package.tops.items() if _leads_to(path, changed)}
    if not place.is_dir():
        try:
            _write({package.tops[top]: path.relative_to(place) for top, path in found.items()}, place, changed)
        except OSError as error:
            raise ProblemError(f"cannot write {place}: {error.strerror}; {ROOM}") from None

    def moved(path: Path) -> Path:
        tops = [top for top in found if path.is_relative_to(package.tops[top])]
        return found[tops[0]] / path.relative_to(package.tops[tops[0]]) if tops else path

    modules = tuple(replace(item, path=moved(item.path)) for item in package.modules)
    return replace(package, tops={**package.tops, **found}, modules=modules)


def _place_of(path: Path, package: UserPackage, place: Path) -> Path:
    """Return where a top-level module goes; those of one folder stay beside each other."""
    folders = list(dict.fromkeys(item.parent for item in package.tops.values()))
    return place / str(folders.index(path.parent)) / path.name


def _leads_to(path: Path, changed: Mapping[Path, str]) -> bool:
    return any(item.is_relative_to(path) for item in changed)


def _write(places: Mapping[Path, Path], place: Path, changed: Mapping[Path, str]) -> None:
    """Write the mirrors of some paths; other threads may be writing the same ones."""
    made = Path(tempfile.mkdtemp(dir=place.parent))
    for path, relative in places.items():
        (made / relative).parent.mkdir(exist_ok=True)
        _mirror(path, made / relative, changed)
    with contextlib.suppress(OSError):  # another thread was faster
        made.rename(place)
    remove_tree(made)


def _mirror(path: Path, copy: Path, changed: Mapping[Path, str]) -> None:
    if path in changed:
        copy.write_text(changed[path])
    elif not _leads_to(path, changed):
        copy.symlink_to(path)
    else:
        copy.mkdir()
        for item in path.iterdir():
            if item.name != _BYTE_CODE:  # else new byte code would be written into the user's folder
                _mirror(item, copy / item.name, changed)
