"""The cores and priority of this process, which another process of the same user can change."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Scheduling:
    """Remembers on which cores, and with which priority, this process may run."""

    def __init__(self) -> None:
        self._cores = os.sched_getaffinity(0)
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)

    def restore(self) -> None:
        """Give both back to every thread: a candidate that ran before may have taken them."""
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended, or lowering is not allowed
                os.sched_setaffinity(int(task.name), self._cores)
                os.setpriority(os.PRIO_PROCESS, int(task.name), self._nice)
