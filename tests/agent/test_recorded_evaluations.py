"""What an earlier run left in the journal."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.agent.recorded_evaluations import RecordedEvaluations
from kernelwright.core import Config, Journal, JournalError, KernelRecord, Trial, read_journal
from kernelwright.core.journal import of

from ..fakes import PROFILE, evaluation, kernel

TUNED = kernel(20.0, SPEED=20)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A journal with a kernel measured twice, and another at a config."""
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        recall = RecordedEvaluations(journal)
        recall.add_profile(PROFILE)
        recall.add(kernel(5.0), evaluation(kernel(5.0), Config(), 5.0), "start", 1.5)
        recall.add(TUNED, evaluation(TUNED, Config({"SPEED": 8}), 8.0), "turn 1: tune", 1.0)
        recall.add(kernel(5.0), evaluation(kernel(5.0), Config(), 5.5), "final", 1.0)
    return path


def test_a_kernel_is_written_once_before_its_trials(path: Path) -> None:
    records = read_journal(path)
    assert [record.kind for record in records] == ["profile", "kernel", "trial", "kernel", "trial", "trial"]
    assert [record.source for record in of(records, KernelRecord)] == [kernel(5.0).source, TUNED.source]
    assert [record.origin for record in of(records, Trial)] == ["start", "turn 1: tune", "final"]
    assert [record.seconds for record in of(records, Trial)] == [1.5, 1.0, 1.0]


def test_a_resumed_run_writes_no_source_twice(path: Path) -> None:
    with Journal(path) as journal:
        RecordedEvaluations(journal).add(TUNED, evaluation(TUNED, Config(), 20.0), "turn 2: step", 1.0)
    assert [record.kind for record in read_journal(path)][-2:] == ["trial", "trial"]


def test_evaluations_are_handed_out_once_in_the_order_in_which_they_were_made(path: Path) -> None:
    with Journal(path) as journal:
        recall = RecordedEvaluations(journal)
        assert recall.take(kernel(7.0)) is None
        taken = [recall.take(kernel(5.0)) for _ in range(3)]
        assert [evaluation and evaluation.latency_ms for evaluation in taken] == [5.0, 5.5, None]


def test_the_text_decides_not_its_name(path: Path) -> None:
    with Journal(path) as journal:
        found = RecordedEvaluations(journal).take(TUNED.bind({"SPEED": 8}))
        assert found is not None
        assert (found.latency_ms, found.kernel_digest) == (8.0, TUNED.digest)
        recall = RecordedEvaluations(journal)
        assert recall.take(TUNED) is None
        assert recall.take(TUNED.bind({"SPEED": 12})) is None


def test_what_this_run_adds_is_not_recalled(path: Path) -> None:
    with Journal(path) as journal:
        recall = RecordedEvaluations(journal)
        recall.add(kernel(6.0), evaluation(kernel(6.0), Config(), 6.0), "turn 1: step", 1.0)
        assert recall.take(kernel(6.0)) is None


def test_the_latest_profile_counts(path: Path) -> None:
    later = PROFILE.model_copy(update={"flops": 7.0})
    with Journal(path) as journal:
        assert RecordedEvaluations(journal).profile == PROFILE
        RecordedEvaluations(journal).add_profile(later)
        assert RecordedEvaluations(journal).profile == later


def test_damage_is_reported_with_its_line(path: Path) -> None:
    with path.open("a") as file:
        file.write(json.dumps({"kind": "profile", "profile": {"flops": "many"}}) + "\n")
    with pytest.raises(JournalError, match=r"line 7 is not a valid profile record: profile\.flops: "):
        Journal(path)


def test_threads_write_whole_records_and_take_each_once(path: Path) -> None:
    with Journal(path) as journal:
        recall = RecordedEvaluations(journal)
        found = []

        def work(number: int) -> None:
            for i in range(20):
                measured = kernel(float(100 * number + i + 1000))
                recall.add(measured, evaluation(measured, Config(), 1.0), "turn 1: step", 0.0)
            found.append(recall.take(kernel(5.0)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(
        evaluation.latency_ms for evaluation in found if evaluation is not None and evaluation.latency_ms
    ) == [5.0, 5.5]
    assert len(read_journal(path)) == 6 + 4 * 20 * 2
