"""A candidate's worker that is started before there is a kernel for it: opening a GPU takes some tenths of a second."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from ...core import DeviceError, TorchProblem
from ..workers.client import Worker, WorkerDied, WorkerTimeout

OPENS_S = 60.0


class SpareWorker:
    """At most one, for the problem of the last evaluation."""

    def __init__(self) -> None:
        self._problem: TorchProblem | None = None
        self._worker: Worker | None = None
        self._opening: threading.Thread | None = None

    def start(self, problem: TorchProblem, new_worker: Callable[[], Worker]) -> None:
        """Start one for this problem, unless there is one; returns before it is ready."""
        if self._worker is not None and self._worker.alive and self._problem == problem:
            return
        self.discard()
        self._problem, self._worker = problem, new_worker()
        self._opening = threading.Thread(target=_open, args=(self._worker,), name="spare", daemon=True)
        self._opening.start()

    def wait(self) -> None:
        """Wait until it does nothing any more: nothing may run beside a timing."""
        if self._opening is not None:
            self._opening.join()
            self._opening = None

    def take(self, problem: TorchProblem) -> Worker | None:
        """Return the one for this problem, if there is one; the caller ends it."""
        self.wait()
        if self._worker is None or not self._worker.alive or self._problem != problem:
            return None
        worker, self._worker = self._worker, None
        return worker

    def discard(self) -> None:
        """End it."""
        self.wait()
        if self._worker is not None:
            self._worker.discard()
            self._worker = None


def _open(worker: Worker) -> None:
    with contextlib.suppress(WorkerDied, WorkerTimeout, DeviceError):  # then there is none
        worker.call(OPENS_S, op="release")  # answered when its device is open
