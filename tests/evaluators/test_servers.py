"""A server, and its workers, live as long as this process wants them, whichever thread started them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from kernelwright.core import Config, DeviceError, Evaluation, Kernel, Problem, Status
from kernelwright.evaluators.local import LocalEvaluator

from ..conftest import FAST

Result = TypeVar("Result")

GRACE_S = 1.0
"""How long a server that is to die with a thread would be given to do so."""


def in_a_thread(task: Callable[[], Result]) -> Result:
    """What `task` returns, from a thread that is gone from Linux as well when it has."""
    found: list[Result] = []
    ids: list[int] = []

    def run() -> None:
        ids.append(threading.get_native_id())
        found.append(task())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    deadline = time.monotonic() + 10
    while Path(f"/proc/self/task/{ids[0]}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found[0]


def test_a_server_outlives_the_thread_that_started_it(scale_problem: Problem, scale_kernel: Kernel) -> None:
    with LocalEvaluator(settings=FAST) as fresh:

        def lane() -> tuple[Evaluation, int, int]:
            (found,) = fresh.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 8})])
            return found, fresh.processes.server.pid, fresh.processes.judge(scale_problem).pid

        first, server, judge = in_a_thread(lane)
        bench = fresh._bench
        assert bench is not None
        kept = bench.worker.pid
        time.sleep(GRACE_S)
        assert fresh.processes.server.alive and bench.alive
        for _ in range(2):
            found, *pids = in_a_thread(lane)
            assert (found.status, pids) == (Status.OK, [server, judge]), found.message
            assert fresh._bench is bench and bench.worker.pid == kept
        (found,) = fresh.evaluate(scale_problem, scale_kernel, [Config()])
        assert (first.status, found.status) == (Status.OK, Status.OK)
        assert fresh.processes.server.pid == server
    assert not Path(f"/proc/{server}").exists()


def test_a_server_that_died_is_replaced_with_all_its_workers(scale_problem: Problem, scale_kernel: Kernel) -> None:
    config = Config({"BLOCK": 8})
    with LocalEvaluator(settings=FAST) as fresh:
        (before,) = fresh.evaluate(scale_problem, scale_kernel, [config])
        server, bench, judge = fresh.processes.server, fresh._bench, fresh.processes.judge(scale_problem)
        assert bench is not None
        evaluations = fresh.evaluate(scale_problem, scale_kernel, [config] * 2)
        assert next(evaluations).status is Status.OK
        assert fresh._bench is bench
        worker = bench.worker
        _kill(server.pid, lambda: server.alive)
        assert not (bench.alive or worker.alive or judge.alive)
        with pytest.raises(DeviceError, match="run again with --resume"):
            judge.call("properties")
        # Between two configs of one call, and from call to call.
        assert next(evaluations).status is Status.OK
        assert fresh.processes.server.pid != server.pid
        replaced = fresh.processes.server
        _kill(replaced.pid, lambda: replaced.alive)
        (after,) = fresh.evaluate(scale_problem, scale_kernel, [config])
        assert (before.status, after.status) == (Status.OK, Status.OK)
        assert fresh.processes.server.pid != replaced.pid


def _kill(pid: int, alive: Callable[[], bool]) -> None:
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while alive():
        assert time.monotonic() < deadline
        time.sleep(0.01)
