"""What a call consists of: the host's work is found wherever it hides, and no noise is taken for it."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from kernelwright.core import Rejection
from kernelwright.evaluators.candidate import call_parts
from kernelwright.evaluators.candidate.call_parts import CallParts
from kernelwright.evaluators.candidate.responses import BatchResponse
from kernelwright.evaluators.guards.measured_share import MeasuredShare, TorchOperator
from kernelwright.evaluators.guards.own_kernels import LaunchCounter

STEP = TorchOperator(name="aten.mm.default", kind="compute", family="products")
REJECTION = Rejection(rule="torch-operator", where="mm", why="too much")


class Processes:
    """Candidate and replayer: a call takes `call_ms` where it is replayed, and `whole_ms` in the candidate's process,
    which says that `host_ms` of it are the host's."""

    def __init__(self, call_ms: float, whole_ms: float, host_ms: float, steps_ms: Iterator[float]) -> None:
        self._call_ms, self._whole_ms, self._host_ms, self._steps_ms = call_ms, whole_ms, host_ms, steps_ms
        self.rounds = 0

    pid = 1 << 30  # nobody's

    def go(self, empty: bool = False) -> tuple[BatchResponse, float]:
        self.rounds += not empty
        return BatchResponse(samples_ms=[] if empty else [self._call_ms]), 0.1 + (0.0 if empty else self._call_ms)

    def hold_steps(self) -> None:
        pass

    def time_steps(self) -> tuple[BatchResponse, float]:
        times = [0.002, next(self._steps_ms)]
        return BatchResponse(samples_ms=times), 0.1 + sum(times)

    def host_ms(self, integers: int | None = None) -> float:
        return self._host_ms

    def repeat_ms(self, calls: int) -> float:
        return 0.2 + calls * self._whole_ms

    def replayed(self) -> Any:
        """Itself, as the process that replays."""
        replayer = copy.copy(self)
        replayer._whole_ms = self._call_ms
        return replayer


def measured(
    whole_ms: float, host_ms: float, steps_ms: Iterator[float] | None = None
) -> tuple[float, Rejection | None, Processes]:
    processes: Any = Processes(4.0, whole_ms, host_ms, steps_ms or itertools.repeat(0.102))
    reference: Any = SimpleNamespace()
    replayer = processes.replayed()
    parts = CallParts(processes, replayer, reference, on_cpu=True)

    def violation(share: MeasuredShare) -> Rejection | None:
        return REJECTION if share.shares()["products"] > 0.1 else None

    return *parts.measure([STEP], violation), replayer


def test_the_hosts_work_is_what_its_process_says() -> None:
    assert measured(whole_ms=4.05, host_ms=0.04)[0] == 0.04


def test_work_that_is_hidden_from_the_process_counts() -> None:
    host_ms, _, processes = measured(whole_ms=8.0, host_ms=0.04)
    assert host_ms == pytest.approx(4.0) and processes.rounds == call_parts.MOST_ROUNDS


def test_a_step_that_was_disturbed_is_measured_again() -> None:
    disturbed = iter([3.0, 2.0, 2.5, 1.0, *[0.102] * 20])
    _, broken, processes = measured(4.05, 0.04, disturbed)
    assert broken is None and processes.rounds == 5
    assert measured(4.05, 0.04, itertools.repeat(1.0))[1] is REJECTION


@pytest.mark.parametrize(("says_ms", "wall_ms"), [(0.01, 9.0), (0.01, 5.0)])
def test_steps_take_no_less_than_the_evaluators_clock_says(says_ms: float, wall_ms: float) -> None:
    class Lies(Processes):
        def time_steps(self) -> tuple[BatchResponse, float]:
            return BatchResponse(samples_ms=[0.001, says_ms]), wall_ms

    found: list[float] = []
    processes: Any = Lies(4.0, 4.0, 0.0, iter(()))
    anything: Any = SimpleNamespace()
    parts = CallParts(processes, processes, anything, on_cpu=True)

    def noted(share: MeasuredShare) -> Rejection | None:
        found.append(share.shares()["products"])
        return None

    parts.measure([STEP], noted)
    assert found[-1] > 0.5


def test_steps_that_take_longer_than_the_request_are_refused() -> None:
    class Lies(Processes):
        def time_steps(self) -> tuple[BatchResponse, float]:
            return BatchResponse(samples_ms=[0.001, 3.0]), 2.0

    processes: Any = Lies(4.0, 4.0, 0.0, iter(()))
    processes.rejected = lambda rule, where, why: RuntimeError(rule)
    anything: Any = SimpleNamespace()
    parts = CallParts(processes, processes, anything, on_cpu=True)
    with pytest.raises(RuntimeError, match="wrong-times"):
        parts.measure([STEP], lambda share: None)


def test_the_host_is_measured_without_launches_and_torch() -> None:
    with LaunchCounter("cpu", torch=True) as counter:
        time.sleep(0.02)
        torch.randn(1500, 1500) @ torch.randn(1500, 1500)
    assert counter.own_ms is not None
    assert 20 <= counter.call_ms - counter.own_ms < counter.call_ms
    with LaunchCounter("cpu") as without:
        torch.randn(10, 10) @ torch.randn(10, 10)
    assert without.own_ms == 0.0
