"""Limits on a run."""

from __future__ import annotations

import time

from pydantic import BaseModel, ConfigDict, Field


class Budget(BaseModel):
    """Limits of a run, None for no limit. The same type holds what was spent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trials: int | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    dollars: float | None = Field(default=None, ge=0)

    def exhausted(self, spent: Budget) -> str | None:
        """Describe the limit that has been reached, or return None."""
        for name in type(self).model_fields:
            limit, used = getattr(self, name), getattr(spent, name)
            if limit is not None and used is not None and used >= limit:
                return f"budget of {limit:g} {name} used up"
        return None


class Deadline:
    """A time limit in seconds; None for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._started = time.monotonic()

    def late(self) -> str | None:
        """Return a message if the limit is reached, otherwise None."""
        return Budget(seconds=self._seconds).exhausted(Budget(seconds=time.monotonic() - self._started))

    def remaining(self) -> float | None:
        """Return the remaining seconds; None without a limit."""
        return None if self._seconds is None else max(0.0, self._seconds - (time.monotonic() - self._started))
