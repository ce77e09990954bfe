"""One measurement at a time on a device, whichever process asks: a lock that processes share."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from ...core import DeviceError

FOLDER = Path(tempfile.gettempdir()) / "kernelwright-locks"
"""One for all users of the machine."""
TOLD_AFTER_S = 20.0
"""How long waiting is nothing to speak of."""

_log = logging.getLogger(__name__)


class DeviceLock:
    """Held while a kernel is checked and timed. It is gone with the process that holds it.

    `name` stands for the device: 'cpu', or a GPU's UUID, since its number depends on who counts.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.path = (folder or FOLDER) / f"{re.sub(r'[^A-Za-z0-9.-]', '-', name)}.lock"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait until nobody else measures on the device, then keep others waiting."""
        file = self._open()
        try:
            self._wait(file)
            os.ftruncate(file, 0)
            os.pwrite(file, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(file)

    def _wait(self, file: int) -> None:
        """Lock the file, and say after a while whom that is waiting for: a stopped process would hold it for ever."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        telling = threading.Timer(TOLD_AFTER_S, self._tell, [file])
        telling.start()
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        finally:
            telling.cancel()

    def _tell(self, file: int) -> None:
        holder = os.pread(file, 20, 0).decode(errors="replace") or "another"
        _log.warning("waiting for the device: process %s is measuring on it (%s)", holder, self.path)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            # Every user must be able to lock it, whatever the umask of the one who made it says.
            if not self.path.parent.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(PermissionError):  # another user was faster
                    self.path.parent.chmod(0o1777)
            with contextlib.suppress(FileNotFoundError):
                # Systems refuse to "create" what another user has created in such a folder.
                return os.open(self.path, flags)
            file = os.open(self.path, flags | os.O_CREAT, 0o666)
            with contextlib.suppress(PermissionError):
                os.fchmod(file, 0o666)
            return file
        except OSError as error:
            raise DeviceError(
                f"cannot lock the device by {self.path}: {error.strerror}; remove that file, or let all write it"
            ) from None
