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
        self.asked = self.discarded = False

    def call(self, seconds: float, op: str) -> dict[str, Any]:
        """Answer the only request."""
        assert op == "ready"
        self.asked = True
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


def test_what_is_measured_waits_for_it_and_one_that_failed_takes_no_memory() -> None:
    ready, failed = StartedWorker(ready=True), StartedWorker(ready=False)
    for worker in (ready, failed):
        pool = pool_of([worker, StartedWorker(ready=True)])
        pool.expect()
        pool.wait()
        assert worker.asked and worker.discarded is (worker is failed)
        assert (pool.replay_worker() is worker) is (worker is ready)
