"""A lock between processes: one measurement at a time on a device, and no other work on it meanwhile."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ...core import DeviceError
from ...core.file_locks import EVERYBODY, try_lock, unlock
from .lock_holders import Holder, holders_of

VARIABLE = "KERNELWRIGHT_LOCKS"
"""The variable that names another folder for the locks, as where containers share a device and not a /tmp."""
REPORTED_AFTER_S = 20.0
"""Seconds to wait before reporting it."""
POLL_S = 0.005
OTHERS_S = 300.0
"""Seconds to wait for processes of other users, which this user cannot end; then both use the device at once."""
OWN_S = 1800.0
"""Seconds to wait for processes of the same user."""

_log = logging.getLogger(__name__)
_passed: set[int] = set()
"""Processes that did not release the device in time; they are not waited for again."""


def lock_folder() -> Path:
    """Return the folder of the locks, by default one for all users of the machine."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(tempfile.gettempdir()) / "kernelwright-locks"


class DeviceLock:
    """Held while a kernel is checked and timed: by one process, or by several that only check.

    It is gone with the process that holds it. `name` stands for the device: 'cpu', or a GPU's UUID, since its number
    depends on who counts. A second file is for whose turn is next: without it a process that locks again at once would
    keep the others out, who ask now and then, and processes that check would keep one out that measures.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.path = (folder or lock_folder()) / f"{re.sub(r'[^A-Za-z0-9.-]', '-', name)}.lock"
        self._file: int | None = None
        self._shared = False

    @contextlib.contextmanager
    def held(self, shared: bool = False) -> Iterator[None]:
        """Wait until the device is free, or with `shared` until no process measures; keep others waiting."""
        self._take(shared)
        try:
            yield
        finally:
            self._release()

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """While it is held: let others measure meanwhile, and wait for the device again."""
        shared = self._shared
        self._release()
        try:
            yield
        finally:
            self._take(shared)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """While it is shared: wait until the others have checked, keep all waiting, and share it again."""
        self.upgrade_to_exclusive()
        try:
            yield
        finally:
            self._release()
            self._take(shared=True)

    def upgrade_to_exclusive(self) -> None:
        """While it is shared: wait until the others have checked, and keep all waiting for as long as it is held."""
        self._release()
        self._take(shared=False)

    def yield_to_waiter(self) -> None:
        """While it is shared: let those go first who wait to have the device alone."""
        if self.is_shared and self._is_wanted():
            with self.released():
                pass

    @property
    def _next(self) -> Path:
        return self.path.with_suffix(".next")

    @property
    def is_free(self) -> bool:
        """Whether the device is free, and no process waits for it."""
        if not self.path.exists():
            return True
        for path in (self._next, self.path):
            try:
                file = _opened(path)
            except OSError:  # taking it will say so
                return False
            try:
                if not try_lock(file):
                    return False
            finally:
                os.close(file)
        return True

    @property
    def is_held(self) -> bool:
        """Whether others that measure wait because of this object."""
        return self._file is not None

    @property
    def is_shared(self) -> bool:
        """Whether it is held, and others may check meanwhile."""
        return self.is_held and self._shared

    def _release(self) -> None:
        file, self._file = self._file, None
        if file is not None:  # None where waiting for it again was broken off
            unlock(file)
            os.close(file)

    def _take(self, shared: bool) -> None:
        try:
            self._lock(shared)
        except OSError as error:
            # Whoever was first in a place for all may have left what others cannot open.
            self.path = _private_folder(self.path.parent) / self.path.name
            _log.warning(
                "cannot lock the device by %s (%s): other users do not know of this process",
                error.filename,
                error.strerror,
            )
            try:
                self._lock(shared)
            except OSError as again:
                raise DeviceError(
                    f"cannot lock the device by {again.filename or self.path}: {again.strerror}; "
                    "remove that file, or set TMPDIR to another folder"
                ) from None
        self._shared = shared

    def _lock(self, shared: bool) -> None:
        self._make_folder()
        turn = self._locked(self._next)
        try:
            self._file = self._locked(self.path, shared)
        finally:
            os.close(turn)

    def _is_wanted(self) -> bool:
        """Whether somebody has the turn, which is given on as soon as the device is."""
        try:
            turn = _opened(self._next)
        except OSError:  # taking it again will say so
            return False
        try:
            return not try_lock(turn, shared=True)
        finally:
            os.close(turn)

    def _make_folder(self) -> None:
        folder = self.path.parent
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(PermissionError):  # another user was faster
                folder.chmod(0o1777)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or not (found.st_uid == os.getuid() or found.st_mode & stat.S_ISVTX):
            raise OSError(errno.EPERM, "another user may replace the files in it", str(folder))

    def _locked(self, path: Path, shared: bool = False) -> int:
        """Return the open file, locked; or as it is, where processes of other users do not give it up.

        Says after a while who holds it. Raises `DeviceError` when a process of this user does not give it up.
        """
        file = _opened(path)
        try:
            began, reported = time.monotonic(), False
            while not try_lock(file, shared):
                waited = time.monotonic() - began
                holders = holders_of(file) if waited > REPORTED_AFTER_S or _passed else []
                if waited > REPORTED_AFTER_S and not reported:
                    reported = True
                    _log.warning("waiting for the device: %s has it (%s)", _names(holders), path)
                if _may_pass(holders, waited):
                    break
                if waited > OWN_S:
                    raise DeviceError(
                        f"{_names(holders)} has not given up the device for {OWN_S / 60:.0f} minutes",
                        f"end it, or remove {path} if nothing is measured there",
                    )
                time.sleep(POLL_S)
        except BaseException:
            os.close(file)
            raise
        _log.debug("has %s%s after %.1f s", path, ", shared" if shared else "", time.monotonic() - began)
        return file


def _may_pass(holders: list[Holder], waited: float) -> bool:
    """Return whether to go on while others hold the lock; reports it the first time."""
    pids = {holder.pid for holder in holders}
    if not holders or not all(holder.is_another_users for holder in holders):
        return False
    if waited > OTHERS_S:
        _log.warning(
            "%s has not given up the device for %.0f s: going on without it, so timings may be disturbed",
            _names(holders),
            waited,
        )
        _passed.update(pids)
    return pids <= _passed


def _names(holders: list[Holder]) -> str:
    return " and ".join(map(str, holders)) or "another process"


def _private_folder(shared: Path) -> Path:
    folder = shared.with_name(f"{shared.name}-of-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    # In a folder that all may write, Linux does not let a user open another user's file with O_CREAT.
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, flags)
    file = os.open(path, flags | os.O_CREAT)
    os.fchmod(file, EVERYBODY)  # whatever the umask says
    return file
