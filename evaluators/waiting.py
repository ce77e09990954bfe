"""Time that a command waits for the device, which does not count against its time limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .pipeline.device_access import DeviceAccess
from .reference.client import ReferenceClient
from .workers.device_lock import DeviceLock


class WorkingClock:
    """A clock that stands still while the command waits for the device and has it nowhere.

    Where lanes of the command wait for each other, one of them has it, and the clock goes on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = 0
        self._holding = 0
        self._stopped_at: float | None = None
        self._waited = 0.0

    def __call__(self) -> float:
        """Return the seconds of the clock below, less those in which this one stood still."""
        with self._lock:
            now = self._clock() if self._stopped_at is None else self._stopped_at
            return now - self._waited

    def changed(self, waiting: int = 0, holding: int = 0) -> None:
        """Note that this many more lanes wait for the device, or hold it."""
        with self._lock:
            now = self._clock()
            self._waiting += waiting
            self._holding += holding
            still = self._waiting > 0 and self._holding == 0
            if still and self._stopped_at is None:
                self._stopped_at = now
            elif not still and self._stopped_at is not None:
                self._waited += now - self._stopped_at
                self._stopped_at = None


class WatchedAccess(DeviceAccess):
    """Access to a device that a clock watches."""

    def __init__(self, device: str, clock: WorkingClock) -> None:
        super().__init__(device)
        self._clock = clock

    def _lock_of(self, reference_client: ReferenceClient) -> DeviceLock:
        self._lock = _WatchedLock(self._name(reference_client), self._clock)
        return self._lock


class _WatchedLock(DeviceLock):
    def __init__(self, name: str, clock: WorkingClock) -> None:
        super().__init__(name)
        self._clock = clock

    def _take(self, shared: bool) -> None:
        self._clock.changed(waiting=1)
        taken = False
        try:
            super()._take(shared)
            taken = True
        finally:
            self._clock.changed(waiting=-1, holding=int(taken))

    def _release(self) -> None:
        held = self.is_held
        super()._release()
        if held:
            self._clock.changed(holding=-1)
