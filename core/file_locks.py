"""Locks between processes, on files: one for an open file, one for a path, and what device locks are made of."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from .errors import JournalError, ResultsError

EVERYBODY = 0o666
"""Mode of a lock file that several users may take."""


def hold(file: BinaryIO | FileIO, path: Path, advice: str) -> None:
    """Lock an open file until it is closed; raises `JournalError`, with the advice, while another process holds it.

    The lock is on the file itself, not on one beside it: its name may change, and there is nothing to clean up.
    """
    if not try_lock(file.fileno()):
        raise JournalError(f"{path} is in use by another run; wait for it, or {advice}")


def try_lock(descriptor: int, shared: bool = False) -> bool:
    """Lock an open file if that is possible now; return whether it was."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(descriptor: int) -> None:
    """Lock an open file, alone, as soon as nobody else has it."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def unlock(descriptor: int) -> None:
    """Release the lock now: processes that were forked meanwhile have the file open, too."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextlib.contextmanager
def locked(path: Path, advice: str) -> Iterator[None]:
    """Hold a lock file, which is made where it is missing and stays; waits for others.

    Raises `ResultsError`, with the advice, where it cannot be made.
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
