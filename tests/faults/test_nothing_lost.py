"""Results that are deleted or replaced during a run, clocks that are ahead, and the user's umask."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kernelwright.agent.models import files
from kernelwright.core import Journal, KernelRecord, ResultsError, read_journal
from kernelwright.core.files import write_whole

RECORDS = [KernelRecord(digest=str(number), source="x") for number in range(3)]


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def overwritten(folder: Path) -> None:
    write_whole(folder / "journal.jsonl", "another's\n")


@pytest.mark.parametrize(
    ("change", "says", "kept"),
    [
        (shutil.rmtree, "deleted", "journal.jsonl"),
        (lambda folder: (folder / "journal.jsonl").unlink(), "deleted", "journal.jsonl"),
        (moved, "deleted", "journal.jsonl"),
        (overwritten, "replaced", "journal.kept.jsonl"),
    ],
)
def test_results_that_vanish_end_the_run_and_are_kept(
    tmp_path: Path, change: Callable[[Path], object], says: str, kept: str
) -> None:
    path = tmp_path / "results" / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(RECORDS[0])
        journal.append(RECORDS[1])
        change(path.parent)
        with pytest.raises(ResultsError, match=rf"was {says} during the run; all of it is kept in .*{kept}; go on"):
            journal.append(RECORDS[2])
    assert read_journal(path.with_name(kept)) == RECORDS
    with Journal(path.with_name(kept)) as journal:
        assert journal.ours, "a resumed run goes on there"


@pytest.mark.parametrize("ahead_s", [3600.0, 0.3])
def test_a_reply_whose_time_is_in_the_future_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    monkeypatch.setattr(files, "POLL_S", 0.05)
    reply = tmp_path / "0001.reply.md"
    reply.write_text("an answer")
    os.utime(reply, (time.time() + ahead_s,) * 2)
    assert files._written(reply) == "an answer"


def test_a_reply_that_is_being_written_by_a_clock_ahead_is_not_read_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = tmp_path / "0001.reply.md"
    reply.write_text("an ans")
    os.utime(reply, (time.time() + 3600,) * 2)

    def writes_on(seconds: float) -> None:
        reply.write_text("an answer")

    monkeypatch.setattr(time, "sleep", writes_on)
    assert files._written(reply) == ""


@pytest.fixture(params=[0o022, 0o027, 0o077, 0o002], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_what_is_written_has_the_users_mode(tmp_path: Path, umask: int) -> None:
    path = write_whole(tmp_path / "report.html", "x")
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(RECORDS[0])
    for written in (path, tmp_path / "journal.jsonl"):
        assert stat.S_IMODE(written.stat().st_mode) == 0o666 & ~umask
