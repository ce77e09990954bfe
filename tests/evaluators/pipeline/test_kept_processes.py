"""Processes that evaluators hand on: one evaluator's at a time, by settings, and none after an exception."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernelwright.core import DeviceError
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.multi_device import MultiDeviceEvaluator
from kernelwright.evaluators.pipeline.kept_processes import KeptProcesses
from kernelwright.evaluators.settings import Limits, Precision, Settings


@pytest.fixture
def kept() -> Iterator[KeptProcesses]:
    """Nothing of it starts a server."""
    found = KeptProcesses()
    yield found
    found.close()


def test_the_next_evaluator_has_the_same_processes_whatever_else_it_wants(kept: KeptProcesses) -> None:
    with LocalEvaluator(kept=kept) as first:
        pass
    with LocalEvaluator(settings=Settings(graph=True, baselines=("compile",)).quick(), kept=kept) as second:
        assert second.processes is first.processes


@pytest.mark.parametrize("settings", [Settings(limits=Limits(compile_s=7.0)), Settings(precision=Precision.DEFAULT)])
def test_other_limits_have_others_which_are_kept_too(kept: KeptProcesses, settings: Settings) -> None:
    seen = []
    for wanted in (Settings(), settings, Settings(), settings):
        with LocalEvaluator(settings=wanted, kept=kept) as evaluator:
            seen.append(evaluator.processes)
    assert seen[0] is seen[2] and seen[1] is seen[3] and seen[0] is not seen[1]


def test_evaluators_that_are_open_at_the_same_time_share_none(kept: KeptProcesses) -> None:
    with LocalEvaluator(kept=kept) as evaluator, LocalEvaluator(kept=kept) as other, evaluator.beside() as beside:
        assert evaluator.processes is not other.processes and beside.processes is evaluator.processes
        beside.close()
        with LocalEvaluator(kept=kept) as third:
            assert third.processes not in (evaluator.processes, other.processes)


def test_closing_twice_gives_them_back_once(kept: KeptProcesses) -> None:
    with LocalEvaluator(kept=kept) as evaluator:
        evaluator.close()
        with LocalEvaluator(kept=kept) as second:
            assert second.processes is evaluator.processes
            evaluator.close()
            with LocalEvaluator(kept=kept) as third:
                assert third.processes is not second.processes


@pytest.mark.parametrize("fleet", [False, True])
def test_what_an_exception_may_have_left_at_work_is_ended(kept: KeptProcesses, fleet: bool) -> None:
    evaluator = LocalEvaluator(kept=kept)
    with pytest.raises(KeyboardInterrupt), MultiDeviceEvaluator([evaluator]) if fleet else evaluator:
        raise KeyboardInterrupt
    assert not evaluator.processes.folder.exists()
    with LocalEvaluator(kept=kept) as second:
        assert second.processes is not evaluator.processes


def test_close_ends_what_is_free_and_leaves_the_rest_to_its_evaluator(kept: KeptProcesses) -> None:
    with LocalEvaluator(kept=kept) as running:
        with LocalEvaluator(kept=kept) as done:
            pass
        kept.close()
        assert running.processes.folder.exists() and not done.processes.folder.exists()
    assert not running.processes.folder.exists()
    with pytest.raises(DeviceError, match="the session is closed; open another one"):
        LocalEvaluator(kept=kept)
