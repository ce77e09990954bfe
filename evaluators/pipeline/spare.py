"""A candidate's worker that is started before there is a kernel for it: opening a GPU takes some tenths of a second."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from ...core import DeviceError, TorchProblem
from ..workers.client import Worker, WorkerDied, WorkerTimeout

OPENS_S = 60.0


class SpareWorker:
    """At most one for each of the problems evaluated last, `most` of them."""

    def __init__(self) -> None:
        self.most = 1
        self._spares: list[_Spare] = []
        self._lock = threading.Lock()

    def start(self, problem: TorchProblem, new_worker: Callable[[], Worker]) -> None:
        """Start one for this problem, unless there is one; returns before it is ready."""
        with self._lock:
            if any(one.problem == problem and one.worker.alive for one in self._spares):
                return
        new = _Spare(problem, new_worker())
        with self._lock:
            kept = [one for one in self._spares if one.problem != problem and one.worker.alive]
            kept = kept[max(0, len(kept) - self.most + 1) :]
            ended = [one for one in self._spares if one not in kept]
            self._spares = [*kept, new]
        for one in ended:
            one.discard()

    def wait(self) -> None:
        """Wait until none does anything any more: nothing may run beside a timing."""
        for one in list(self._spares):
            one.opening.join()

    def take(self, problem: TorchProblem) -> Worker | None:
        """Return the one for this problem, if there is one; the caller ends it."""
        with self._lock:
            found = next((one for one in self._spares if one.problem == problem), None)
            if found is None:
                return None
            self._spares.remove(found)
        found.opening.join()
        if not found.worker.alive:
            found.discard()
            return None
        return found.worker

    def discard(self) -> None:
        """End them."""
        with self._lock:
            ended, self._spares = self._spares, []
        for one in ended:
            one.discard()


class _Spare:
    def __init__(self, problem: TorchProblem, worker: Worker) -> None:
        self.problem = problem
        self.worker = worker
        self.opening = threading.Thread(target=_open, args=(worker,), name="spare", daemon=True)
        self.opening.start()

    def discard(self) -> None:
        self.opening.join()
        self.worker.discard()


def _open(worker: Worker) -> None:
    with contextlib.suppress(WorkerDied, WorkerTimeout, DeviceError):  # then there is none
        worker.call(OPENS_S, op="release")  # answered when its device is open
