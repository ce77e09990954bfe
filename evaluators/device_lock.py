"""One measurement at a time on a device, whichever process asks: a lock that processes share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..core import DeviceError


class DeviceLock:
    """Held while a kernel is checked and timed. It is gone with the process that holds it.

    `name` stands for the device: 'cpu', or a GPU's UUID, since its number depends on who counts. `folder` is one
    for all users of the machine.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        folder = folder or Path(tempfile.gettempdir()) / "kernelwright-locks"
        self.path = folder / f"{re.sub(r'[^A-Za-z0-9.-]', '-', name)}.lock"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait until nobody else measures on the device, then keep others waiting."""
        file = self._open()
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        # Every user must be able to lock it, whatever this one's umask says.
        before = os.umask(0)
        try:
            self.path.parent.mkdir(mode=0o1777, parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                # Systems refuse to "create" what another user has created in such a folder.
                return os.open(self.path, flags)
            return os.open(self.path, flags | os.O_CREAT, 0o666)
        except OSError as error:
            raise DeviceError(
                f"cannot lock the device by {self.path}: {error.strerror}; remove that file, or let all write it"
            ) from None
        finally:
            os.umask(before)
