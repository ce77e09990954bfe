"""Removes folders that untrusted code wrote to, however deep and however protected they are."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import secrets
import stat
from pathlib import Path

from ...core.file_locks import OWNER, is_abandoned

_LOG = logging.getLogger(__name__)
PREFIX = "kernelwright-"
"""Prefix of all temporary folders."""
_RWX = stat.S_IRWXU


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it; what cannot be removed stays, without an error.

    Folders in folders are moved to the top before they are emptied: their depth then needs neither recursion, nor a
    descriptor for each, nor paths longer than the system allows. No process may write there any more.
    """
    with contextlib.suppress(OSError):
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _empty(top)
        finally:
            os.close(top)
    with contextlib.suppress(OSError):
        folder.rmdir()


@functools.cache
def sweep(place: Path) -> None:
    """Remove, once in this process, the temporary folders that killed processes left."""
    for folder in place.glob(f"{PREFIX}*"):
        if not folder.is_symlink() and is_abandoned(folder / OWNER):
            _LOG.info("%s was left by a process that has ended, and is removed", folder)
            remove_tree(folder)


def _empty(top: int) -> None:
    names = (f"{secrets.token_hex(8)}.{number}" for number in itertools.count())
    waiting = _unlinked(top)
    while waiting:
        name = waiting.pop()
        with contextlib.suppress(OSError):
            os.chmod(name, _RWX, dir_fd=top)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
            try:
                for deeper in _unlinked(inner):
                    with contextlib.suppress(OSError):
                        os.chmod(deeper, _RWX, dir_fd=inner)  # to move it is to change it
                        moved = next(names)
                        os.rename(deeper, moved, src_dir_fd=inner, dst_dir_fd=top)
                        waiting.append(moved)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)


def _unlinked(folder: int) -> list[str]:
    """Unlink all but the folders in a folder, and return the names of these."""
    with os.scandir(folder) as found:
        kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in found}
    for name in (name for name, is_folder in kinds.items() if not is_folder):
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
    return [name for name, is_folder in kinds.items() if is_folder]
