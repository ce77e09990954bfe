"""Keeps each thread of IREE's runtime on its own core, as the runtime does where it is allowed to.

In a sandbox the filter of system calls refuses that, since it cannot tell a thread of the process from another
process. Without it two threads may share a core while another is idle.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

_THREAD = re.compile(r"iree-worker-(\d+)")
_CPUS = Path("/sys/devices/system/cpu")


def pin(pid: int) -> None:
    """Give each of the runtime's threads in a process its core, where there are enough cores.

    A process that names other threads so has those of its own pinned, and no others.
    """
    threads: dict[int, int] = {}
    with contextlib.suppress(OSError):  # it has ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            if (named := _THREAD.fullmatch((task / "comm").read_text().strip())) is not None:
                threads[int(named[1])] = int(task.name)
        cores = _cores(os.sched_getaffinity(pid))
        if max(threads, default=-1) < len(cores):
            for number, thread in threads.items():
                os.sched_setaffinity(thread, {cores[number]})


def _cores(allowed: set[int]) -> list[int]:
    """Return the first processor of each core among those that are allowed."""
    found: dict[str, int] = {}
    for processor in sorted(allowed):
        siblings = str(processor)
        with contextlib.suppress(OSError):
            siblings = (_CPUS / f"cpu{processor}" / "topology" / "thread_siblings_list").read_text().strip()
        found.setdefault(siblings, processor)
    return list(found.values())
