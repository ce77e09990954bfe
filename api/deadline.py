"""The time limit of a command, counted from when it is made."""

from __future__ import annotations

import time

from ..core import Budget


class Deadline:
    """Seconds for the work; None has no end."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._started = time.monotonic()

    def late(self) -> str | None:
        """Return a message when the limit is reached, else None."""
        return Budget(seconds=self._seconds).exhausted(Budget(seconds=time.monotonic() - self._started))

    def remaining(self) -> float | None:
        """Return the seconds that are left; None without a limit."""
        return None if self._seconds is None else max(0.0, self._seconds - (time.monotonic() - self._started))
