"""The threads of a plan's parallel steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Work = Callable[[], None]


class Threads:
    """Does up to `most` things at the same time, the first of them in the calling thread.

    Where that takes all cores, each thing stays on one: while another process keeps a core busy, a thread that wakes
    would otherwise share the caller's.
    """

    def __init__(self, most: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._cores = cores if 1 < len(cores) <= most else []
        self._pool = ThreadPoolExecutor(max(1, most - 1))

    def run(self, works: Sequence[Work]) -> None:
        """Return when all are done; raises what the first of them raised."""
        before = os.sched_getaffinity(0) if self._cores else set()
        others = [self._pool.submit(self._do, work, number) for number, work in enumerate(works[1:], 1)]
        try:
            self._do(works[0], 0)
            for other in others:
                other.result()
        finally:
            if before:
                os.sched_setaffinity(0, before)

    def _do(self, work: Work, number: int) -> None:
        if self._cores:
            os.sched_setaffinity(0, {self._cores[number % len(self._cores)]})
        work()
