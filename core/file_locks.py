"""Inter-process locks on open files, paths and temporary folders, and the primitives of device locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from .errors import JournalError, ResultsError

OWNER = ".owner"
"""The file in a temporary folder that its process has locked, for as long as it lives."""
EVERYBODY = 0o666
"""Mode of a lock file that several users share."""


def hold(file: BinaryIO | FileIO, path: Path, advice: str) -> None:
    """Lock an open file until it is closed. Raises `JournalError` with the advice if another process holds it.

    The lock is on the file itself, not on a separate one: the file may be renamed, and nothing is left to clean up.
    """
    if not try_lock(file.fileno()):
        raise JournalError(f"{path} is in use by another run; wait for it, or {advice}")


class OwnFolder:
    """A new folder in the temporary folder, with a lock that shows that its process is alive.

    If the process was killed, `is_abandoned` tells other processes that they may remove the folder.
    """

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
        hidden = self.path / f"{OWNER}.part"
        self._lock = hidden.open("wb")
        try_lock(self._lock.fileno())
        hidden.rename(self.path / OWNER)  # never seen unlocked

    def close(self) -> None:
        """Release the lock, after the folder was removed."""
        self._lock.close()


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield an `OwnFolder`'s path; remove the folder afterwards."""
    own = OwnFolder(prefix)
    try:
        yield own.path
    finally:
        shutil.rmtree(own.path, ignore_errors=True)
        own.close()


def is_abandoned(lock: Path) -> bool:
    """Return whether the process that locked this file has ended; False without such a file of this user's."""
    try:
        with os.fdopen(os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return os.fstat(file.fileno()).st_uid == os.geteuid() and try_lock(file.fileno())
    except OSError:
        return False


def try_lock(descriptor: int, shared: bool = False) -> bool:
    """Try to lock an open file without waiting. Return whether it is locked."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(descriptor: int) -> None:
    """Wait for an exclusive lock on an open file."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def unlock(descriptor: int) -> None:
    """Release the lock explicitly: processes forked meanwhile have the file open too."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextlib.contextmanager
def locked(path: Path, advice: str) -> Iterator[None]:
    """Wait for a lock file and hold it. It is created if it is missing, and not removed.

    Raises `ResultsError` with the advice if it cannot be created.
    """
    from filelock import FileLock

    lock = FileLock(path, mode=EVERYBODY)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise ResultsError(f"cannot write {path.parent}: {error.strerror}; {advice}") from None
    try:
        yield
    finally:
        lock.release()
