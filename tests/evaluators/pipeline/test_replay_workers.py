"""Tests of `kernelwright.evaluators.pipeline.replay_workers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernelwright.evaluators.pipeline.replay_workers import ReplayWorkerPool
from kernelwright.evaluators.workers.client import WorkerDiedError


class StartedWorker:
    """A worker whose device could be opened, or could not."""

    alive = runs = True

    def __init__(self, ready: bool | None) -> None:
        self._ready = ready
        self.discarded = False

    def call(self, seconds: float, op: str) -> dict[str, Any]:
        """Answer the only request."""
        assert op == "ready"
        if self._ready is None:
            raise WorkerDiedError(1)
        return {"ready": self._ready}

    def discard(self) -> None:
        """Note it."""
        self.discarded = True


def pool_of(workers: list[Any]) -> ReplayWorkerPool:
    left = iter(workers)
    return ReplayWorkerPool(lambda: next(left), {}, "cuda", Path(), lambda work: work())


def test_a_worker_that_was_started_ahead_is_used() -> None:
    workers = [StartedWorker(ready=True), StartedWorker(ready=True)]
    pool = pool_of(workers)
    pool.expect()
    assert pool.replay_worker() is workers[0]
    assert pool.replay_worker() is workers[1]


def test_one_that_could_not_open_the_device_or_has_ended_is_replaced() -> None:
    for ready in (False, None):
        workers = [StartedWorker(ready), StartedWorker(ready=True)]
        pool = pool_of(workers)
        pool.expect()
        assert pool.replay_worker() is workers[1]
        assert workers[0].discarded
