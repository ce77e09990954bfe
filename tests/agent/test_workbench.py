"""The workbench and its lanes: what is measured, by which lane, how it is counted."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from kernelwright.core import Config, Kernel, KernelError, Trial
from kernelwright.core.events import TrialDone

from ..fakes import PROFILE, kernel
from .made_up import SPACE, TUNED, Bench, Scripted


def test_what_was_measured_is_not_measured_again(made: Bench) -> None:
    first, second = (made.bench.evaluate(kernel(5.0), Config(), "start") for _ in range(2))
    assert first == second
    assert (made.bench.trials, len(made.evaluator.calls)) == (1, 1)
    assert len(made.heard.of(TrialDone)) == 1
    (trial,) = made.journal.of(Trial)
    assert trial.seconds == 1.0, "by the clock of the workbench"


def test_again_measures_again_and_counts_from_then_on(tmp_path: Path) -> None:
    made = Bench(tmp_path, evaluator=Scripted(change=lambda bound, call: 5.0 + call))
    first = made.bench.evaluate(kernel(1.0), Config(), "start")
    again = made.bench.check_last(kernel(1.0), kernel(1.0)).found
    known = made.bench.evaluate(kernel(1.0), Config(), "later")
    assert [evaluation.latency_ms for evaluation in (first, again, known)] == [6.0, 7.0, 7.0]
    assert made.bench.trials == 2
    assert made.origins() == ["start", "final"]


def test_the_same_text_under_another_name_is_known_and_named_as_asked(made: Bench) -> None:
    bound = TUNED.bind({"SPEED": 8})
    made.bench.evaluate(bound, Config(), "turn 1: one")
    found = made.bench.evaluate(TUNED, Config({"SPEED": 8}), "turn 1: other")
    assert len(made.evaluator.calls) == 1
    assert (found.kernel_digest, found.config) == (TUNED.digest, {"SPEED": 8})
    lane = made.lane()
    lane.evaluate(TUNED, Config({"SPEED": 8}), "evaluate")
    assert [candidate.kernel for candidate in lane.tried] == [bound]


def test_the_same_text_under_another_name_is_recalled(tmp_path: Path) -> None:
    bound = TUNED.bind({"SPEED": 8})
    for kernels in ([(TUNED, Config({"SPEED": 8})), (bound, Config())], [(bound, Config())]):
        made = Bench(tmp_path)
        for variant, config in kernels:
            found = made.bench.evaluate(variant, config, "turn 1: step")
            assert (found.kernel_digest, found.latency_ms) == (variant.digest, 8.0)
        made.journal.close()
    assert made.evaluator.calls == []
    assert made.bench.trials == 1, "what is recalled counts as it did"


def test_a_config_that_does_not_fit_is_reported_before_anything_is_measured(made: Bench) -> None:
    with pytest.raises(KernelError, match="no constant WIDTH"):
        made.lane().evaluate(TUNED, Config({"WIDTH": 8}), "evaluate")
    assert made.evaluator.calls == []
    assert made.bench.trials == 0


def test_what_went_wrong_while_measuring_can_be_tried_again(tmp_path: Path) -> None:
    def broken(bound: Kernel, call: int) -> None:
        if call == 1:
            raise KernelError("written for another device")

    made = Bench(tmp_path, evaluator=Scripted(change=broken))
    with pytest.raises(KernelError, match="another device"):
        made.bench.evaluate(kernel(5.0), Config(), "start")
    assert made.bench.evaluate(kernel(5.0), Config(), "start").ok


def test_those_who_wait_for_a_measurement_share_what_goes_wrong_in_it(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def broken(bound: Kernel, call: int) -> None:
        begun.set()
        assert go_on.wait(20)
        raise KernelError("written for another device")

    made = Bench(tmp_path, evaluators=2, evaluator=Scripted(change=broken))
    told: list[str] = []

    def ask() -> None:
        try:
            made.bench.evaluate(kernel(5.0), Config(), "turn 1: step")
        except KernelError as error:
            told.append(str(error))

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    threads[0].start()
    assert begun.wait(20)
    threads[1].start()
    time.sleep(0.1)
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert told == ["written for another device"] * 2
    assert len(made.evaluator.calls) == 1


def test_waiting_for_a_measurement_holds_no_evaluator(tmp_path: Path) -> None:
    """Three lanes want the same kernel while it is measured; a fourth, with another kernel, finds an evaluator free."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(bound: Kernel, call: int) -> None:
        if bound == kernel(5.0):
            begun.set()
            assert go_on.wait(20)

    made = Bench(tmp_path, evaluators=2, evaluator=Scripted(change=slow))
    found: list[float | None] = []

    def ask() -> None:
        found.append(made.bench.evaluate(kernel(5.0), Config(), "turn 1: step").latency_ms)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(20)
    time.sleep(0.05)
    other = threading.Thread(target=made.bench.evaluate, args=(kernel(7.0), Config(), "turn 1.1: step"), daemon=True)
    other.start()
    other.join(5)
    assert not other.is_alive()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert found == [5.0] * 3
    assert sorted(made.evaluator.calls) == [kernel(5.0).source, kernel(7.0).source]


def test_the_profile_is_measured_once_and_recalled(tmp_path: Path) -> None:
    for profiles in (1, 0):
        made = Bench(tmp_path)
        assert made.bench.profile() == made.bench.profile() == PROFILE
        assert made.evaluator.profiles == profiles
        made.journal.close()


def test_origins_name_the_turn_and_the_lane(made: Bench) -> None:
    made.lane(2, 0).evaluate(kernel(5.0), Config(), "evaluate")
    made.lane(2, 1).evaluate(kernel(6.0), Config(), "evaluate")
    made.lane(3, 1).evaluate(TUNED, SPACE.default, "split-grid")
    assert made.origins() == ["turn 2: evaluate", "turn 2.1: evaluate", "turn 3.1: split-grid"]
    assert made.lane(3, 1).name == "3.1"


def test_a_lane_remembers_what_was_correct_and_what_came_last(made: Bench) -> None:
    lane = made.lane()
    lane.evaluate(kernel(5.0), Config(), "evaluate")
    lane.evaluate(TUNED, Config({"SPEED": 12}), "evaluate")
    slow = kernel("timeout", SPEED=1)
    failed = [lane.evaluate(slow, Config({"SPEED": 2}), "evaluate") for _ in range(2)][-1]
    assert [candidate.latency_ms for candidate in lane.tried] == [5.0, 12.0]
    assert lane.tried[1].kernel == TUNED.bind({"SPEED": 12})
    assert lane.last == (slow.bind({"SPEED": 2}), failed)
    assert lane.trials == 3


def test_what_a_lane_beside_measured_meanwhile_counts_as_a_trial_of_this_one(made: Bench) -> None:
    """Or what a lane may still do would depend on which was faster."""
    first, second = made.lane(1, 0), made.lane(1, 1)
    for lane in (first, second):
        lane.evaluate(TUNED, Config({"SPEED": 16}), "evaluate")
    assert len(made.evaluator.calls) == 1
    assert (first.trials, second.trials, made.bench.trials) == (1, 1, 1)


def test_a_last_check_has_an_evaluator_of_its_own_which_times_the_start_too(tmp_path: Path) -> None:
    last = Scripted()
    made = Bench(tmp_path, finalist=last)
    made.bench.evaluate(kernel(5.0), Config(), "turn 1: one")
    check = made.bench.check_last(kernel(5.0), kernel(20.0))
    assert (len(made.evaluator.calls), last.calls) == (1, [kernel(20.0).source, kernel(5.0).source])
    assert (check.start.latency_ms, check.found.latency_ms) == (20.0, 5.0)
    assert made.origins() == ["turn 1: one", "final: start", "final"]
    assert made.bench.trials == 2, "what stands beside a kernel is not a trial of its own"
