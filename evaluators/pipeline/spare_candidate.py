"""A candidate's process that is started ahead: on a GPU it takes half a second until it can execute anything.

It opens its device while the kernel before it is checked, and has run nothing when it is given to the next one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ...core import KernelwrightError
from ..candidate.process import OPENS_S
from ..workers.client import Worker, WorkerDiedError, WorkerTimeoutError
from ..workers.removal import remove_tree


@dataclass
class _Spare:
    key: object
    cache: Path
    opened: Future[Worker | None]

    def discard(self) -> None:
        """End it once it has opened its device; that is not waited for: what starts it may wait for the caller."""
        self.opened.add_done_callback(self._remove)

    def _remove(self, opened: Future[Worker | None]) -> None:
        worker = None if opened.exception() is not None else opened.result()
        if worker is not None:
            worker.discard()
        remove_tree(self.cache)


class SpareCandidate:
    """Starts one process ahead for whoever asked for the same twice: `new_worker` forks one that uses a cache folder.

    A process fits where the keys are equal: that of its problem and of whatever else it was started with.
    """

    def __init__(self, new_cache: Callable[[], Path]) -> None:
        self._new_cache = new_cache
        self._starting = ThreadPoolExecutor(1, "spare")
        self._spare: _Spare | None = None
        self._last: tuple[object, Callable[[Path], Worker]] | None = None
        self._repeated = False

    def take(self, key: object, new_worker: Callable[[Path], Worker]) -> tuple[Path, Callable[[], Worker]]:
        """Return a cache folder, which the caller removes, and what starts processes with it: the first is the spare
        one, where that fits."""
        self._repeated = self._last is not None and self._last[0] == key
        self._last = key, new_worker
        spare, self._spare = self._spare, None
        ready: list[Worker] = []
        cache = None
        if spare is not None:
            worker = spare.opened.result()
            if spare.key == key and worker is not None and worker.alive and worker.runs:
                ready, cache = [worker], spare.cache
            else:
                spare.discard()
        cache = cache or self._new_cache()
        return cache, lambda: ready.pop() if ready else new_worker(cache)

    def expect(self) -> bool:
        """Start the next one, like the last two that were asked for, unless it is there; return whether there is one,
        without waiting for it."""
        if self._spare is None and self._repeated and self._last is not None:
            key, new_worker = self._last
            cache = self._new_cache()
            self._spare = _Spare(key, cache, self._starting.submit(_opened, new_worker, cache))
        return self._spare is not None

    def wait(self) -> None:
        """Wait until no process is being started, which would disturb what is measured."""
        if self._spare is not None:
            self._spare.opened.result()

    def close(self) -> None:
        """End the process and remove its files."""
        spare, self._spare, self._last = self._spare, None, None
        if spare is not None:
            spare.discard()


def _opened(new_worker: Callable[[Path], Worker], cache: Path) -> Worker | None:
    """Start a process and let it open its device; None where that fails: whoever needs one finds out why."""
    with contextlib.suppress(KernelwrightError, OSError):
        worker = new_worker(cache)
        try:
            worker.call(OPENS_S, op="release")
        except (WorkerDiedError, WorkerTimeoutError, KernelwrightError):
            worker.discard()
            return None
        return worker
    return None
