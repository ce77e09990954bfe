"""Keeps threads that spin away from what is timed on a CPU.

libgomp's threads wait for the next parallel region by spinning, for milliseconds (15 on an AMD EPYC). Meanwhile they
occupy cores that the other side, or another pool of threads in the same process, needs. Forbidding it would slow the
reference (`benchmarks/spinning.py`), so nothing is timed while the other side spins, and inputs are written by one
thread, which leaves none behind.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

SPIN_S = 0.25
"""Seconds to wait at most: libgomp stops sooner, unless OMP_WAIT_POLICY=active was set."""
_LOOK_S = 0.0005


class OneThread:
    """A context in which torch's operators on a CPU use the calling thread only; no effect without OpenMP.

    `torch.set_num_threads` would also set up other libraries anew. Create it before a candidate's code is loaded.
    """

    def __init__(self) -> None:
        import torch  # noqa: F401  (loads its OpenMP library, and makes that visible)

        library = ctypes.CDLL(None)
        self._count: Any = getattr(library, "omp_get_max_threads", None)
        self._set: Any = getattr(library, "omp_set_num_threads", None)
        self._before = 0

    def __enter__(self) -> None:
        if self._set is not None:
            self._before = self._count()
            self._set(1)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._set is not None:
            self._set(self._before)


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
