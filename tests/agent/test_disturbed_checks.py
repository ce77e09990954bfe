"""The last checks of a run beside other processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.agent.stopping import StoppingCriteria
from kernelwright.core import Kernel

from ..fakes import kernel
from .made_up import Scripted, listed, run


class DisturbedChecks(Scripted):
    """The first measurements of a kernel after its first one are disturbed, and slower."""

    def __init__(self, of: Kernel, disturbed: int) -> None:
        super().__init__()
        self._of, self._left, self._first = of, disturbed, True

    def _result(self, bound: Kernel, number: int) -> float | str:
        self._contention = None
        if bound.source != self._of.source or self._first:
            self._first = self._first and bound.source != self._of.source
            return super()._result(bound, number)
        if self._left == 0:
            return super()._result(bound, number)
        self._left -= 1
        self._contention = 0.9
        return 8.0


def test_a_final_check_that_others_disturbed_is_made_again(tmp_path: Path) -> None:
    evaluator = DisturbedChecks(kernel(2.0), disturbed=1)
    proposer = listed(kernel(2.0), kernel(30.0), kernel(31.0), kernel(32.0))
    outcome = run(tmp_path, kernel(20.0), proposer, evaluator, StoppingCriteria(target_speedup=4, max_iterations=9))
    assert outcome.stopped == "target of 4x reached" and outcome.reached(4)
    assert outcome.best.latency_ms == 2.0
    assert len(outcome.turns) == 2, "it is made again at the next opportunity, and no more turns are spent"
    assert evaluator.calls.count(kernel(2.0).source) == 3


def test_a_check_that_others_disturb_at_the_end_of_the_run_is_made_again_there(tmp_path: Path) -> None:
    evaluator = DisturbedChecks(kernel(2.0), disturbed=2)
    outcome = run(tmp_path, kernel(20.0), listed(kernel(2.0)), evaluator)
    assert outcome.verified and outcome.best.contention is None
    assert evaluator.calls.count(kernel(2.0).source) == 4


def test_a_check_is_made_so_often_and_no_more(tmp_path: Path) -> None:
    evaluator = DisturbedChecks(kernel(2.0), disturbed=99)
    proposer = listed(kernel(2.0), kernel(30.0), kernel(31.0), kernel(32.0), kernel(33.0))
    outcome = run(tmp_path, kernel(20.0), proposer, evaluator, StoppingCriteria(target_speedup=4, max_iterations=9))
    assert outcome.verified and not outcome.reached(4)
    assert outcome.best.contention == 0.9
    assert evaluator.calls.count(kernel(2.0).source) == 1 + 3


def test_of_disturbed_checks_the_least_disturbed_counts(tmp_path: Path) -> None:
    class LessAtFirst(DisturbedChecks):
        def _result(self, bound: Kernel, number: int) -> float | str:
            result = super()._result(bound, number)
            if self._contention is None:
                return result
            self._contention = 1.0 - 0.1 * (self._left % 3)  # 0.8, then 0.9, then 1.0
            return 10.0 * self._contention

    outcome = run(tmp_path, kernel(20.0), listed(kernel(2.0)), LessAtFirst(kernel(2.0), disturbed=3))
    assert outcome.verified and outcome.best.contention == pytest.approx(0.8)
    assert outcome.best.latency_ms == pytest.approx(8.0)


@pytest.mark.parametrize(("busy", "checks"), [(True, 2), (False, 3)])
def test_on_a_busy_machine_a_check_is_made_again_only_at_the_end(tmp_path: Path, busy: bool, checks: int) -> None:
    """Where all of a turn was disturbed, what is made again after it would be, too."""

    class Busy(DisturbedChecks):
        def _result(self, bound: Kernel, number: int) -> float | str:
            result = super()._result(bound, number)
            if busy:
                self._contention = 0.9
            return result

    evaluator = Busy(kernel(2.0), disturbed=99)
    proposer = listed(kernel(2.0), kernel(30.0), kernel(31.0), kernel(32.0))
    outcome = run(tmp_path, kernel(20.0), proposer, evaluator, StoppingCriteria(target_speedup=4, max_iterations=9))
    assert outcome.verified and outcome.faster and not outcome.reached(4)
    assert evaluator.calls.count(kernel(2.0).source) == 1 + checks
