from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernelwright.core import Journal, JournalError, ResultsError, read_journal, set_aside

records = st.lists(
    st.dictionaries(
        st.text(max_size=5),
        st.one_of(st.integers(), st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False)),
    ),
    min_size=1,
    max_size=6,
)


@given(records, st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_replays_after_truncation_at_any_byte(
    tmp_path: Path, written: list[dict[str, object]], data: st.DataObject
) -> None:
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for record in written:
            journal.append(record)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    complete = whole[:cut].count(b"\n")
    assert read_journal(path) == json.loads(json.dumps(written))[:complete]
    with Journal(path) as journal:
        assert len(journal.records) == complete
        journal.append({"after": "the cut"})
    assert read_journal(path)[-1] == {"after": "the cut"}
    assert len(read_journal(path)) == complete + 1


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
from kernelwright.core import Journal, ResultsError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path({str(path)!r}))
journal.append({{"n": 1}})
resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
try:
    journal.append({{"n": "x" * 100}})
except ResultsError as error:
    print(error)
journal.close()
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    assert "make room" in run.stdout
    assert read_journal(path) == [{"n": 1}]
