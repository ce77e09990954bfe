"""Signed journals: which lines count as this user's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Journal, RunRecord, is_own, read_journal
from kernelwright.core.files import state_folder
from kernelwright.core.signatures import SIGNED, own_key

from ..made_up_runs import journal, records

Lines = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def written(folder: Path) -> Path:
    path = folder / "journal_x.jsonl"
    with Journal(path) as new:
        for number in range(3):
            new.append(RunRecord(problem=f"level1/1_{number}", model="ünïcode \u2028"))
        assert new.ours
    return path


def test_a_run_goes_on_with_its_own_journal(tmp_path: Path) -> None:
    path = written(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"kind":"run","prob')  # torn by a kill
    with Journal(path) as again:
        assert again.ours
        again.append(RunRecord(problem="level1/1_9"))
    assert is_own(path)
    assert [record.problem[-1] for record in read_journal(path) if isinstance(record, RunRecord)] == [
        "0",
        "1",
        "2",
        "9",
    ]
    assert (state_folder() / "journals.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "forged",
    [
        lambda lines: [{**lines[0], "problem": "level1/1_7"}, *lines[1:]],
        lambda lines: [*lines, {"kind": "run", "problem": "level1/1_7"}],
        lambda lines: [*lines, {**lines[-1], "problem": "level1/1_7"}],
        lambda lines: [*lines, lines[-1]],
        lambda lines: lines[1:],
        lambda lines: [lines[1], lines[0], lines[2]],
        lambda lines: [{**line, SIGNED: None} for line in lines],
        lambda lines: [{**line, SIGNED: "ü"} for line in lines],
        lambda lines: [{**line, "added": 1} for line in lines],
    ],
)
def test_what_another_wrote_or_changed_is_not_ones_own(tmp_path: Path, forged: Callable[[Lines], Lines]) -> None:
    path = written(tmp_path)
    lines = forged([json.loads(line) for line in path.read_text().splitlines()])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert not is_own(path)
    with Journal(path) as again:  # it is read, and gone on with
        assert not again.ours
        again.append(RunRecord(problem="level1/1_9"))
    assert SIGNED not in json.loads(path.read_text().splitlines()[-1])


def test_a_key_that_others_could_read_is_none(tmp_path: Path) -> None:
    path = written(tmp_path)
    key = state_folder() / "journals.key"
    known = key.read_bytes()
    key.chmod(0o644)
    own_key.__globals__["_key"].cache_clear()
    assert not is_own(path)
    assert own_key() == key.read_bytes() != known and key.stat().st_mode & 0o777 == 0o600


def test_a_home_that_cannot_be_written_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert is_own(written(tmp_path))


def test_another_users_journal_is_not_ones_own(tmp_path: Path) -> None:
    assert is_own(journal(tmp_path, records()))
    assert not is_own(journal(tmp_path, records(), key=b"another's"))
