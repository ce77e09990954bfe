"""Waits for threads that spin, before something else is timed on a CPU.

libgomp's threads wait for the next parallel region by spinning, for milliseconds. Meanwhile they occupy cores that the
other side needs. Forbidding it would slow the reference (`benchmarks/spinning.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

SPIN_S = 0.25
"""Seconds to wait at most: libgomp stops sooner, unless OMP_WAIT_POLICY=active was set."""
_LOOK_S = 0.0005


def wait_until_asleep(processes: Iterable[int], seconds: float = SPIN_S) -> bool:
    """Wait at most `seconds` until no thread of the processes runs or wants to; return whether that is so."""
    waiting = list(processes)
    deadline = time.monotonic() + seconds
    while waiting := [pid for pid in waiting if is_running(pid)]:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_S)
    return True


def is_running(pid: int) -> bool:
    """Return whether a thread of the process runs or waits for a core; False when the process has ended."""
    try:
        return any(_state(task) == "R" for task in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return False


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # the thread has ended
        return ""
