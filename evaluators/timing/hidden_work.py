"""Work of a candidate outside of the events around its call, distinguished from work of other processes."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

HIDDEN_MS = 0.05
HIDDEN_SHARE = 0.1
"""Ignored time outside of the events: this much, or this share of the call, whichever is more."""
FEW = 5
HIDDEN_IN_FEW_MS = 1.0
"""With fewer samples, one may be an interruption of the processor: then more must be missing."""
CONFIRMATIONS = 6
"""A candidate is rejected after hidden work in this many chunks during which the device was otherwise idle."""
BUSY_MS = 0.025
"""An empty call that takes this much longer than the fastest, in the mean: other processes use the device, or delay
launches for it, as those do that open it."""
BUSY_S = 30.0
"""Seconds to wait for a device that other processes use."""
PAUSE_S = 0.2


def hidden_work(times_ms: Sequence[float], host_ms: Sequence[float], empty_ms: float) -> str | None:
    """Return a message when processor or device were busy for much longer than the events report; else None.

    Causes are work on another stream, in a thread, or manipulated events. Flush, call and the wait for the device
    follow each other without a pause, so wall time less event time is that of an empty call (`Clock.empty_ms`,
    measured by the reference worker), whether the kernels or their launches take the time. Launching many kernels
    lengthens the events' time and leaves that difference unchanged.
    """
    if not times_ms or len(times_ms) != len(host_ms):
        return f"{len(times_ms)} times by events came with {len(host_ms)} times by the wall clock"
    if not all(map(math.isfinite, (*times_ms, *host_ms))):
        return "the times are not numbers"
    excess = statistics.median(host - event for event, host in zip(times_ms, host_ms, strict=True)) - empty_ms
    call_ms = statistics.median(times_ms)
    tolerated = HIDDEN_MS if len(times_ms) >= FEW else HIDDEN_IN_FEW_MS
    if excess <= max(tolerated, HIDDEN_SHARE * call_ms):
        return None
    return f"each call kept the device busy for {excess:.3f} ms beyond the {call_ms:.3f} ms that its events report"


class IdleDevice:
    """Time of an empty call on the device: `measure` asks the reference worker for it, in ms beyond its events."""

    def __init__(self, empty_ms: float, measure: Callable[[], float]) -> None:
        self.empty_ms = empty_ms
        self._measure = measure

    def is_busy(self) -> bool:
        """Return whether an empty call takes longer now: another process uses the device, or work was left on it."""
        now_ms = self._measure()
        self.empty_ms = min(self.empty_ms, now_ms)
        return now_ms > self.empty_ms + BUSY_MS


class HiddenWorkDetector:
    """Decides whose work it was that a chunk of samples found.

    Other users of a GPU take turns with a candidate on it, and each of its calls then lasts longer than its events
    report, as with hidden work. But so does an empty call of the trusted process. What is found while the device is
    busy in any case proves nothing, so the chunk is taken again; a device that stays busy rejects the candidate, since
    the work may be its own.
    """

    def __init__(self, idle: IdleDevice) -> None:
        self._idle = idle
        self._found = 0
        self._since = time.monotonic()

    def confirmed(self, hidden: str) -> str | None:
        """Return why the candidate is rejected, or None where it must be timed again."""
        if not self._idle.is_busy():
            self._found += 1
            return hidden if self._found == CONFIRMATIONS else None
        if time.monotonic() - self._since > BUSY_S:
            return (
                f"{hidden}; an empty call is as slow, so another process may be using the device: try when it is idle"
            )
        time.sleep(PAUSE_S)
        return None
