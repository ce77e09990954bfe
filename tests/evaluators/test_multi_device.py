"""Several devices as one evaluator."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, Kernel, Problem, ProblemError, Status
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.multi_device import AHEAD, MultiDeviceEvaluator
from kernelwright.evaluators.settings import Sampling, SearchSettings

from ..conftest import FAST, SCALE_PROBLEM, torch_kernel

QUICK = Sampling(seconds=0.03, min_samples=5, max_samples=20, chunk_s=0.002, heeds_load=False)
IN_FLEET_WINDOW = 2
IN_FLEET = replace(FAST, checks=1, search=SearchSettings(compilers=1, window=IN_FLEET_WINDOW, sampling=QUICK))

REPEATED = torch_kernel("for _ in range(REPEAT): y = x * self.weight\n        return y", top="REPEAT = 1\nDUMMY = 0")


@pytest.fixture(scope="module")
def fleet() -> Iterator[MultiDeviceEvaluator]:
    with MultiDeviceEvaluator([LocalEvaluator(settings=IN_FLEET) for _ in range(2)]) as shared:
        yield shared
        pids = [evaluator.processes.server.pid for evaluator in shared._evaluators]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def _threads() -> set[threading.Thread]:
    """All but those that start servers and tidy up, which live as long as these, and those that read workers' logs."""
    lasting = ("starter", "log", "tidying_0")
    return {thread for thread in threading.enumerate() if thread.name not in lasting}


def test_a_fleet_keeps_the_order_and_shares_the_work(fleet: MultiDeviceEvaluator, scale_problem: Problem) -> None:
    configs = [Config({"REPEAT": repeat}) for repeat in range(1, 10)]
    drawn: list[Config] = []
    threads = _threads()

    def source() -> Iterator[Config]:
        for config in configs:
            drawn.append(config)
            yield config

    seen: list[Evaluation] = []
    for evaluation in fleet.evaluate(scale_problem, REPEATED, source()):
        seen.append(evaluation)
        assert len(drawn) - len(seen) < 2 * AHEAD * IN_FLEET_WINDOW
    assert [Config(e.config) for e in seen] == configs
    assert all(e.ok for e in seen)
    assert _threads() <= threads
    # The servers live on, though the threads that they served have ended.
    assert all(
        server.alive for evaluator in fleet._evaluators for server in evaluator.processes.servers.started or (None,)
    )
    judges = [evaluator.processes.reference_client(scale_problem).pid for evaluator in fleet._evaluators]
    assert len(set(judges)) == 2
    final = fleet.compare(scale_problem, REPEATED, [configs[0], Config()])
    assert [e.ok for e in final] == [True, True]


def test_a_fleet_that_is_left_gives_up_what_was_not_begun(
    fleet: MultiDeviceEvaluator, scale_problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Config] = []

    def slow(
        problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation]
    ) -> Iterator[Evaluation]:
        for config in configs:
            time.sleep(0.2)
            measured.append(config)
            failed = {"status": Status.TIMEOUT, "message": "slow", "config": dict(config)}
            yield Evaluation(kernel_digest=kernel.digest, **failed)

    for evaluator in fleet._evaluators:
        monkeypatch.setattr(evaluator, "evaluate", slow)
    threads = _threads()
    evaluations = fleet.evaluate(scale_problem, REPEATED, (Config({"REPEAT": i}) for i in range(1, 100)))
    next(evaluations)
    evaluations.close()  # type: ignore[attr-defined]
    assert _threads() <= threads
    assert len(measured) <= 4 < 2 * AHEAD * IN_FLEET_WINDOW


def test_a_problem_that_no_device_can_evaluate(fleet: MultiDeviceEvaluator, scale_problem: Problem) -> None:
    broken = replace(scale_problem, source=SCALE_PROBLEM.replace("return x * self.weight", "raise ValueError('no')"))
    with pytest.raises(ProblemError, match="ValueError: no"):
        list(fleet.evaluate(broken, REPEATED, [Config({"REPEAT": 1})]))


def test_an_exception_of_one_device_reaches_the_caller(
    fleet: MultiDeviceEvaluator, scale_problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [Config({"REPEAT": repeat}) for repeat in range(1, 8)]
    lost = fleet._evaluators[1]
    real = lost.evaluate

    def broken(
        problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation]
    ) -> Iterator[Evaluation]:
        yield from itertools.islice(real(problem, kernel, configs), 2)
        raise ProblemError("the device is gone")

    monkeypatch.setattr(lost, "evaluate", broken)
    threads = _threads()
    seen: list[Config] = []
    with pytest.raises(ProblemError, match="the device is gone"):
        seen += (Config(e.config) for e in fleet.evaluate(scale_problem, REPEATED, configs))
    assert seen == configs[: len(seen)]
    assert _threads() <= threads
