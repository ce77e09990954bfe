"""The trusted process's clock, which checks the times that a process with a candidate's code reports.

A batch of k calls that takes T_k from request to answer, where an empty one takes T_0, spends (T_k - T_0) / k on
a call, whatever the clock in that process says. Its own times serve the spread: above the mean, which is all that
this clock can confirm, and not below.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from .hidden_work import HiddenWorkDetector, IdleDevice, hidden_work

TOLERATED_SHARE = 0.05
TOLERATED_MS = 0.02
"""On a CPU, the time of a call that its own clock may miss: this share of it, or this much, whichever is more."""
FIXED_MS = 1.0
"""Maximum time of a batch beyond that of an empty one, for any length: kernels leave none of the code in the caches."""
CONFIRMATIONS = 6
"""Batches of a chunk that must disagree, while empty ones are as fast as ever."""
SKEWED = 3
"""Batches of a chunk whose median may lie below what their mean confirms, as where another process interrupts one of
few calls. From then on the mean counts."""
EMPTY = 9
"""Empty batches of which the fastest counts."""
BUSY_MS = 0.3
"""An empty batch that takes this much longer than the fastest: other processes use the processor."""


class ClockMismatchError(Exception):
    """The process reports other times than this one measures; the text has both."""


class OutsideClock:
    """Checks the times of one kernel's batches. `idle` is the GPU, or None for a CPU; `empty` makes an empty batch and
    returns its milliseconds.
    """

    def __init__(self, idle: IdleDevice | None, empty: Callable[[], float]) -> None:
        self._idle = idle
        self._empty = empty
        self._empty_ms = min(empty() for _ in range(EMPTY))
        self.restart()

    @property
    def overhead_ms(self) -> float:
        """Time of a batch without its calls."""
        return self._empty_ms + FIXED_MS

    def restart(self) -> None:
        """Begin a chunk of batches."""
        self._found = self._skewed = 0
        self._suspicion = None if self._idle is None else HiddenWorkDetector(self._idle)

    def agreed(self, times_ms: Sequence[float], wall_ms: float) -> list[float] | None:
        """Return the times of a batch's calls, given how long all of it took; None where it must be made again.

        On a CPU that others use, the times become longer, so that they add up. None is shorter than the mean but for
        what is tolerated: a median of few long calls and many short ones could be any. Raises `ClockMismatchError`.
        """
        _require_within(times_ms, wall_ms)
        call_ms = (wall_ms - self.overhead_ms) / len(times_ms)
        found = self._on_cpu(times_ms, call_ms) if self._idle is None else self._on_gpu(times_ms, call_ms)
        return None if found is None else self._confirmed(found)

    def _confirmed(self, times_ms: Sequence[float]) -> list[float] | None:
        mean = statistics.fmean(times_ms)
        least = mean - max(TOLERATED_MS, TOLERATED_SHARE * mean)
        if statistics.median(times_ms) < least:
            self._skewed += 1
            if self._skewed < SKEWED:
                return None
        return [max(item, least) for item in times_ms]

    def lengthened(self, times_ms: Sequence[float], wall_ms: float) -> list[float]:
        """Return times on a CPU, made longer where they do not add up to what this clock says, as of few short calls.

        Raises `ClockMismatchError` where they are more than that.
        """
        _require_within(times_ms, wall_ms)
        factor = max(1.0, (wall_ms - self.overhead_ms) / max(sum(times_ms), 1e-6))
        return [item * factor for item in times_ms]

    def _on_cpu(self, times_ms: Sequence[float], call_ms: float) -> list[float] | None:
        mean = statistics.fmean(times_ms)
        if call_ms - mean <= max(TOLERATED_MS, TOLERATED_SHARE * call_ms):
            return list(times_ms)
        empty_ms = [self._empty() for _ in range(EMPTY)]
        if max(empty_ms) > self._empty_ms + BUSY_MS:
            return [item * call_ms / mean for item in times_ms]
        self._empty_ms = min(self._empty_ms, *empty_ms)
        self._found += 1
        if self._found == CONFIRMATIONS:
            raise ClockMismatchError(
                f"each call took {call_ms:.3f} ms, but the process that made it reports {mean:.3f} ms"
            )
        return None

    def _on_gpu(self, times_ms: Sequence[float], call_ms: float) -> list[float] | None:
        assert self._idle is not None and self._suspicion is not None
        count = len(times_ms)
        hidden = hidden_work([statistics.fmean(times_ms)] * count, [call_ms] * count, self._idle.empty_ms)
        if hidden is None:
            return list(times_ms)
        if (proven := self._suspicion.confirmed(hidden)) is not None:
            raise ClockMismatchError(proven)
        return None


def _require_within(times_ms: Sequence[float], wall_ms: float) -> None:
    if not times_ms or not all(map(math.isfinite, times_ms)) or sum(times_ms) > wall_ms:
        raise ClockMismatchError(f"calls that took {wall_ms:.3f} ms together report {sum(times_ms):.3f} ms")
