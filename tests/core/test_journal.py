from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernelwright.core import Journal, JournalError, Record, ResultsError, RunRecord, read_journal, set_aside

from .record_strategies import records


@given(st.lists(records(), min_size=1, max_size=6), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
def test_replays_after_truncation_at_any_byte(tmp_path: Path, written: list[Record], data: st.DataObject) -> None:
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for record in written:
            journal.append(record)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    complete = whole[:cut].count(b"\n")
    assert read_journal(path) == written[:complete]
    with Journal(path) as journal:
        assert len(journal.records) == complete
        journal.append(RunRecord(problem="after the cut"))
    assert read_journal(path) == [*written[:complete], RunRecord(problem="after the cut")]


@pytest.mark.parametrize("damage", [b"garbage\n", b"[1, 2]\n", b'{"a": \n', b"\xff\xfe\n"])
def test_damage_inside_is_an_error_that_names_the_line(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"a":1}\n' + damage + b'{"a":2}\n')
    with pytest.raises(JournalError, match="line 2 is corrupt"):
        read_journal(path)
    with pytest.raises(JournalError, match="line 2 is corrupt"):
        Journal(path)


def test_two_runs_cannot_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path), pytest.raises(JournalError, match="in use"):
        Journal(path)
    with Journal(path) as again:
        assert again.records == []


def test_an_earlier_journal_is_set_aside_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for content in ("torn", "garbage\n"):
        path.write_text(content)
        set_aside(path)
    assert not path.exists()
    assert sorted(file.read_text() for file in tmp_path.iterdir()) == ["garbage\n", "torn"]
    with Journal(path), pytest.raises(JournalError, match="in use"):
        set_aside(path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ResultsError, match="cannot write"):
        Journal(blocked / "journal.jsonl")


def test_a_full_disk_loses_nothing_that_was_written(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands in for the full disk: the kernel refuses the write half-way."""
    path = tmp_path / "journal.jsonl"
    program = f"""
import resource, signal
from pathlib import Path
from kernelwright.core import Journal, ResultsError, RunRecord
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path({str(path)!r}))
journal.append(RunRecord(problem="p"))
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
try:
    journal.append(RunRecord(problem="x" * 1000))
except ResultsError as error:
    print(error)
journal.close()
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    assert "make room" in run.stdout
    assert read_journal(path) == [RunRecord(problem="p")]
