"""Trials as a journal holds them: read back the same, and whoever reads them says the same of a damaged one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelwright.agent.recorded_evaluations import RecordedEvaluations
from kernelwright.core import Config, Journal, JournalError, ProfileRecord, RunRecord, Trial, read_journal
from kernelwright.core.journal import of
from kernelwright.tuners.formats import read_recording

from ..fakes import PROFILE, evaluation
from ..tuners.searching import KERNEL, Table, search

Reader = Callable[[Path], object]

TRIALS = [
    Trial(origin="list", evaluation=evaluation(KERNEL, Config({"A": a}), float(a)), seconds=a, at="2025")
    for a in (1, 2)
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(RunRecord())
        for trial in TRIALS:
            journal.append(trial)
        journal.append(ProfileRecord(profile=PROFILE))
    return path


def recall(path: Path) -> RecordedEvaluations:
    with Journal(path) as journal:
        return RecordedEvaluations(journal)


def damage(path: Path, line: int, change: Callable[[dict[str, object]], object]) -> None:
    lines = path.read_text().splitlines()
    record = json.loads(lines[line - 1])
    change(record)
    lines[line - 1] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n")


READERS: list[Reader] = [
    read_journal,
    lambda path: search(path, Table()),
    read_recording,
    recall,
]


def test_trials_are_read_back_the_same(path: Path) -> None:
    assert list(of(read_journal(path), Trial)) == TRIALS


@pytest.mark.parametrize("reader", READERS, ids=["trials", "search", "recording", "recall"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda record: record.pop("evaluation"), "evaluation: Field required"),
        (lambda record: record.update(seconds=-1), "seconds: Input should be greater than or equal to 0"),
        (lambda record: record["evaluation"].update(status="fine"), "evaluation.status: Input should be 'ok', "),
    ],
)
def test_a_damaged_trial_is_named(
    path: Path, reader: Reader, change: Callable[[dict[str, object]], object], says: str
) -> None:
    damage(path, 3, change)
    with pytest.raises(JournalError) as caught:
        reader(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, line 3 is not a valid trial record: {says}")
    assert message.endswith("; fix or remove that line") and "\n" not in message


@pytest.mark.parametrize("change", [lambda record: record.pop("profile"), lambda record: record.update(profile=1)])
def test_a_damaged_profile_is_named(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    damage(path, 4, change)
    with pytest.raises(JournalError, match="line 4 is not a valid profile record: profile: "):
        recall(path)
