"""One measurement at a time on a device, whichever process asks: a lock that processes share."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...core import DeviceError

if TYPE_CHECKING:
    from filelock import BaseFileLock

FOLDER = Path(tempfile.gettempdir()) / "kernelwright-locks"
"""One for all users of the machine."""
REPORTED_AFTER_S = 20.0
"""How long is waited in silence."""
POLL_S = 0.005

_log = logging.getLogger(__name__)


class DeviceLock:
    """Held while a kernel is checked and timed. It is gone with the process that holds it.

    `name` stands for the device: 'cpu', or a GPU's UUID, since its number depends on who counts. A second file is for
    whose turn is next: without it a process that locks again at once would keep the others out, who ask now and then.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.path = (folder or FOLDER) / f"{re.sub(r'[^A-Za-z0-9.-]', '-', name)}.lock"
        self._next = self.path.with_suffix(".next")
        self._lock: BaseFileLock | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait until nobody else measures on the device, then keep others waiting."""
        self._take()
        try:
            yield
        finally:
            self._release()

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """While it is held: let others measure meanwhile, and wait for the device again."""
        self._release()
        try:
            yield
        finally:
            self._take()

    @property
    def is_held(self) -> bool:
        """Whether others wait because of this object."""
        return self._lock is not None

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:  # None where waiting for it again was broken off
            lock.release()

    def _take(self) -> None:
        from filelock import FileLock

        # Every user must be able to lock it, whatever the umask of the one who made it says.
        lock = FileLock(self.path, mode=0o666, fallback_to_soft=False, on_acquired=_note_holder, poll_interval=POLL_S)
        turn = FileLock(self._next, mode=0o666, fallback_to_soft=False, poll_interval=POLL_S)
        try:
            self._make_folder()
            self._wait(turn)
            try:
                self._wait(lock)
            finally:
                turn.release()
        except OSError as error:
            raise DeviceError(
                f"cannot lock the device by {error.filename or self.path}: {error.strerror}; "
                "remove that file, or let all write it"
            ) from None
        self._lock = lock

    def _make_folder(self) -> None:
        if not self.path.parent.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(PermissionError):  # another user was faster
                self.path.parent.chmod(0o1777)

    def _wait(self, lock: BaseFileLock) -> None:
        """Lock the file, and say after a while which process holds it: a stopped one would hold it for ever."""
        from filelock import Timeout

        try:
            lock.acquire(timeout=REPORTED_AFTER_S)
        except Timeout:
            holder = self.path.read_text(errors="replace") or "another"
            _log.warning("waiting for the device: process %s is measuring on it (%s)", holder, self.path)
            lock.acquire()


def _note_holder(file: int) -> None:
    os.pwrite(file, str(os.getpid()).encode(), 0)
