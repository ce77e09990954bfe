"""Is anything else using the processor while we time?

A parallel reference whose second thread waits for a busy core can look ten times slower than it is, and a
candidate correspondingly faster. So the load of other processes is measured with every timing on a CPU.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def tolerated_cores() -> float:
    """How many cores others may use before a timing counts as disturbed: a twentieth of them, 0.15 at least."""
    return max(0.15, 0.05 * (os.cpu_count() or 1))


class LoadMeter:
    """Cores that processes other than `ours` (and the hypervisor's other guests) kept busy since `start`."""

    def __init__(self) -> None:
        self._ours: tuple[int, ...] = ()
        self._start: tuple[float, float, float] | None = None

    def start(self, ours: Iterable[int]) -> None:
        """Begin a window; `ours` are the processes whose time does not count."""
        self._ours = (os.getpid(), *ours)
        self._start = self._now()

    def other_cores(self) -> float | None:
        """Cores used by others since the start, 0.0 when it is within the clock's grain; None if unknown."""
        end = self._now()
        if self._start is None or end is None:
            return None
        seconds = end[0] - self._start[0]
        foreign = (end[1] - self._start[1]) - (end[2] - self._start[2])
        # Each counter is read in whole ticks.
        grain = 4 * _TICK_S
        return max(0.0, foreign - grain) / seconds if seconds > 0 else 0.0

    def wait_until_quiet(self, seconds: float) -> bool:
        """Wait until others leave the processor alone, at most so long; whether they did."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.start(self._ours)
            time.sleep(min(0.5, seconds))
            foreign = self.other_cores()
            if foreign is None or foreign < tolerated_cores():
                return True
        return False

    def _now(self) -> tuple[float, float, float] | None:
        """Wall time, busy processor time of the machine, and ours, in seconds."""
        try:
            fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
            ours = sum(_process_ticks(pid) for pid in self._ours)
        except (OSError, ValueError):
            return None
        user, nice, system, _idle, _iowait, irq, softirq, steal = fields
        return time.monotonic(), (user + nice + system + irq + softirq + steal) * _TICK_S, ours * _TICK_S


def _process_ticks(pid: int) -> int:
    """Processor time of a process and its threads, in ticks; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])
