"""Detects other processes that use the processor during a timing.

A parallel reference whose second thread waits for a busy core can look ten times slower than it is, and a
candidate correspondingly faster. So every timing on a CPU measures the load of other processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def tolerated_cores() -> float:
    """Return the cores that others may use before a timing counts as disturbed: a twentieth, but at least 0.15."""
    return max(0.15, 0.05 * (os.cpu_count() or 1))


class LoadMeter:
    """Measures the cores that processes other than `ours` (and other guests of the hypervisor) used since `start`."""

    def __init__(self) -> None:
        self._ours: tuple[int, ...] = ()
        self._start: tuple[float, float, float] | None = None

    def start(self, ours: Iterable[int]) -> None:
        """Start a window; `ours` are the processes whose time does not count."""
        self._ours = (os.getpid(), *ours)
        self._start = self._now()

    def other_cores(self) -> float | None:
        """Return the cores used by others since the start; 0.0 within the clock's resolution, None if unknown."""
        end = self._now()
        if self._start is None or end is None:
            return None
        seconds = end[0] - self._start[0]
        others = (end[1] - self._start[1]) - (end[2] - self._start[2])
        # Each counter is read in whole ticks.
        grain = 4 * _TICK_S
        return max(0.0, others - grain) / seconds if seconds > 0 else 0.0

    def wait_until_quiet(self, seconds: float) -> bool:
        """Wait at most `seconds` until others leave the processor idle; return whether they did."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.start(self._ours)
            time.sleep(min(0.5, seconds))
            others = self.other_cores()
            if others is None or others < tolerated_cores():
                return True
        return False

    def _now(self) -> tuple[float, float, float] | None:
        """Return wall time, busy processor time of the machine, and ours, in seconds."""
        try:
            fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
            ours = sum(_process_ticks(pid) for pid in self._ours)
        except (OSError, ValueError):
            return None
        user, nice, system, _idle, _iowait, irq, softirq, steal = fields
        return time.monotonic(), (user + nice + system + irq + softirq + steal) * _TICK_S, ours * _TICK_S


def _process_ticks(pid: int) -> int:
    """Return the processor time of a process and its threads, in ticks; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])
