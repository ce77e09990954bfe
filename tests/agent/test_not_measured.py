"""What the machine kept from being measured: nothing is concluded from it, and a resumed run measures it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.agent.archived_run import _experiences
from kernelwright.agent.turn import latest_turns
from kernelwright.core import DeviceError, Kernel, Status, Trial, read_journal
from kernelwright.core.journal import of

from ..fakes import kernel
from .made_up import Planned, Scripted, listed, run

START, FASTER = kernel(20.0), kernel(2.0)


def prevented(calls: slice) -> Scripted:
    """The machine prevents the calls of these numbers, from 0."""

    def change(bound: Kernel, number: int) -> str | None:
        return "not_measured" if number - 1 in range(1000)[calls] else None

    return Scripted(change=change)


def test_a_final_check_that_the_machine_prevents_falls_back_to_what_was_proven(tmp_path: Path) -> None:
    cut = run(tmp_path, START, listed(FASTER), prevented(slice(2, None)))
    assert cut.verified and cut.faster and cut.cut_short
    assert (cut.kernel.digest, cut.best.latency_ms, cut.start.latency_ms) == (FASTER.digest, 2.0, 20.0)
    assert cut.stopped.endswith("; the final check was cut short, and earlier measurements count: as told")
    evaluator = Scripted()
    whole = run(tmp_path, START, listed(FASTER), evaluator)
    assert whole.verified and not whole.cut_short and "cut short" not in whole.stopped
    assert evaluator.calls == [START.source, FASTER.source], "the final check alone"


def test_a_kernel_that_the_machine_prevents_is_not_repaired_and_measured_by_the_resumed_run(tmp_path: Path) -> None:
    proposer = Planned({"1.0": [FASTER, kernel(3.0)]})
    lost = run(tmp_path, START, proposer, prevented(slice(1, 2)))
    assert proposer.failed["1.0"] == [], "nothing is wrong with the kernel, so no other one is asked for"
    assert not lost.faster
    records = read_journal(tmp_path / "journal.jsonl")
    assert [trial.evaluation.status for trial in of(records, Trial)].count(Status.NOT_MEASURED) == 1
    (turn,) = latest_turns(records)
    assert len(turn.attempts) == 1 and list(_experiences(turn)) == [], "nothing is learned of it"
    again = run(tmp_path, START, Planned({"1.0": [FASTER]}), Scripted())
    assert again.faster and again.best.latency_ms == 2.0


def test_a_run_ends_where_the_machine_lets_nothing_be_measured(tmp_path: Path) -> None:
    steps = [kernel(float(number)) for number in range(2, 9)]
    with pytest.raises(DeviceError, match="3 kernels in a row could not be measured: as told"):
        run(tmp_path, START, listed(*steps), prevented(slice(1, None)))
    assert run(tmp_path, START, listed(*steps)).best.latency_ms == 2.0
