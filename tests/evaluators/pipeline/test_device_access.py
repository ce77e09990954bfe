"""What is done while others wait for the device, by requests; a CPU stands for the GPU here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kernelwright.core import Config, Kernel, Status, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.device_access import DeviceAccess
from kernelwright.evaluators.reference.client import ReferenceClient
from kernelwright.evaluators.workers.client import ForkServer, WorkerDied

from ...beside import with_launch_plans
from ...conftest import FAST, Unguarded, torch_kernel
from ..device_access import is_exclusive
from ..test_search import SEARCHING

PLANS = ("load_plan", "fit_plan", "replay", "replay_operators", "replay_time", "replay_recheck", "time")


class Seen:
    """Requests to the reference worker, and workers that were started, each with whether others waited."""

    def __init__(self) -> None:
        self.access: DeviceAccess | None = None
        self.free: Counter[str] = Counter()
        self.locked: Counter[str] = Counter()

    def note(self, what: str) -> None:
        assert self.access is not None
        (self.locked if is_exclusive(self.access) else self.free)[what] += 1


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    found, really_asked, really_forked = Seen(), ReferenceClient._ask, ForkServer.fork

    def ask(self: ReferenceClient, seconds: float, op: str, **arguments: Any) -> Any:
        found.note(op)
        return really_asked(self, seconds, op, **arguments)

    def fork(self: ForkServer, role: str, *args: Any, **options: Any) -> Any:
        found.note(role)
        return really_forked(self, role, *args, **options)

    monkeypatch.setattr(ReferenceClient, "_ask", ask)
    monkeypatch.setattr(ForkServer, "fork", fork)
    return found


@pytest.fixture
def evaluator() -> Iterator[LocalEvaluator]:
    with Unguarded(settings=FAST) as fresh:
        yield fresh


def as_on_a_gpu(evaluator: LocalEvaluator, seen: Seen) -> None:
    seen.access = evaluator._bench._access
    seen.access._device = "cuda"


def test_a_plan_is_compiled_while_others_measure(
    evaluator: LocalEvaluator, seen: Seen, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    as_on_a_gpu(evaluator, seen)
    with with_launch_plans():
        (found,) = evaluator.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.ok and found.replay is not None and found.replay.replayed
    assert {"plan compiling", "replay check"} <= set(found.stages)
    assert {op: seen.free[op] for op in PLANS if seen.free[op]} == {"load_plan": 1}
    assert all(seen.locked[op] for op in PLANS[1:]) and not seen.locked["load_plan"]
    assert seen.access is not None and not is_exclusive(seen.access)


def test_the_device_is_taken_again_where_a_plan_ends_the_process(
    evaluator: LocalEvaluator,
    seen: Seen,
    scale_problem: TorchProblem,
    scale_kernel: Kernel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_on_a_gpu(evaluator, seen)
    ask = ReferenceClient._ask

    def dies(self: ReferenceClient, seconds: float, op: str, **arguments: Any) -> Any:
        if op == "load_plan":
            raise WorkerDied(-11)
        return ask(self, seconds, op, **arguments)

    monkeypatch.setattr(ReferenceClient, "_ask", dies)
    with with_launch_plans():
        (found,) = evaluator.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.status is Status.CRASHED and "SIGSEGV" in found.message
    assert seen.access is not None and not is_exclusive(seen.access)


def test_on_a_cpu_nobody_measures_while_a_plan_is_compiled(
    evaluator: LocalEvaluator, seen: Seen, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    seen.access = evaluator._bench._access
    with with_launch_plans():
        (found,) = evaluator.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.ok and (seen.free["load_plan"], seen.locked["load_plan"]) == (0, 1)


def test_a_new_worker_opens_its_device_before_others_have_to_wait(seen: Seen, scale_problem: TorchProblem) -> None:
    """A rejected or wrong kernel ends its worker, so that a search needs another one for the next."""
    kernel = torch_kernel("return x * self.weight + (CASE == 1)", top="CASE = 0")
    with Unguarded(settings=SEARCHING) as searching:
        seen.access = searching._bench._access
        found = list(searching.evaluate(scale_problem, kernel, [Config({"CASE": 1}), Config({"CASE": 0})]))
    assert [one.status for one in found] == [Status.WRONG_VALUE, Status.OK]
    assert (seen.free["candidate.worker"], seen.locked["candidate.worker"]) == (2, 0)
