"""Times kernels while no other process uses the processor, if there is such a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from ..settings import Sampling
from ..workers.channel import Message
from .contention import LoadMeter, tolerated_cores
from .priority import raised
from .sampling import Timer, Timing, interleave
from .threads import wait_until_asleep

MAX_DISTURBED = 2
"""After this many disturbed timings in a row, nothing waits for quiet."""
STEADY = 0.1
"""On a CPU, a median that is not known within this share was disturbed, whatever used the cores: a reference's threads
wait for each other, and some of its calls then take twenty times as long."""


class QuietTimer:
    """Interleaves kernels; on a CPU that others use, or where times vary much, it waits and times once more."""

    def __init__(self, on_cpu: bool) -> None:
        self._on_cpu = on_cpu
        self._meter = LoadMeter()
        self._disturbed = 0

    def time(
        self,
        timers: Sequence[Timer],
        timed: Sequence[int],
        others_of_ours: Iterable[int],
        sampling: Sampling,
        prune_above_ms: float | None = None,
        overhead_ms: float = 0.0,
        watch: Callable[[], object] = lambda: None,
        rivals: int = 0,
    ) -> tuple[list[Timing], float | None]:
        """Return the timings, and how many cores others used where that was too much.

        `timed` are the processes that the timers run in, `others_of_ours` those whose load is the evaluator's own. What
        stays disturbed is the faster half of its samples. See `sampling.interleave` for the rest.
        """
        heeds_load = self._on_cpu and sampling.heeds_load
        if self._on_cpu and len(timed) > 1:  # one process alone runs one kernel at a time
            timers = [_rested(timer, timed) for timer in timers]
        quiet_timeout_s = sampling.quiet_timeout_s if heeds_load and self._disturbed < MAX_DISTURBED else 0.0
        while True:
            self._meter.start((*others_of_ours, *timed))
            limit_ms = math.inf if prune_above_ms is None else prune_above_ms
            with raised(timed):
                timings = interleave(timers, sampling, limit_ms, overhead_ms, watch, rivals)
            others = self._meter.other_cores() if heeds_load else None
            quiet = others is None or others < tolerated_cores()
            if heeds_load and prune_above_ms is None:
                quiet = quiet and all(timing.measurement.precision <= STEADY for timing in timings)
            if quiet or not (quiet_timeout_s and self._meter.wait_until_quiet(quiet_timeout_s)):
                break
            quiet_timeout_s = 0.0
        self._disturbed = 0 if quiet else self._disturbed + 1
        return (timings, None) if quiet else ([timing.faster_half() for timing in timings], others or 0.0)


def _rested(timer: Timer, processes: Sequence[int]) -> Timer:
    """Return the timer with a wait, before each chunk, until no thread of the processes spins (see `threads`)."""

    def take(samples: int) -> Message:
        wait_until_asleep(processes)
        return timer(samples)

    return take
