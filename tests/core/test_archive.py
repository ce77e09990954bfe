"""The archive's file: what is broken costs itself alone, and several may write."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from kernelwright.core import Archive, ArchivedRun, ResultsError

from ..made_up_runs import archived_run


def test_what_was_added_is_read_and_the_last_record_of_a_run_counts(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "own" / "archive.jsonl")
    assert archive.read() == []
    first, second, resumed = archived_run("1" * 16), archived_run("2" * 16), archived_run("1" * 16, speedup=None)
    archive.add(first, second)
    assert archive.read() == [first, second]
    archive.add(resumed)
    assert archive.read() == [resumed, second]


BROKEN = (b"{\n", b"[]\n", b'{"run": 5}\n', b"\xff\n", b'{"version": 99, "run": "x"}\n', b"{")


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_line_costs_itself_alone(broken: bytes, tmp_path: Path) -> None:
    """A line that was torn as its writer was killed has no end; the next one does not stick to it."""
    path = tmp_path / "archive.jsonl"
    archive, run = Archive(path), archived_run()
    archive.add(run)
    path.write_bytes(path.read_bytes() + broken)
    other = archived_run("b" * 16)
    archive.add(other)
    assert archive.read() == [run, other]


def test_a_field_of_a_later_version_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "archive.jsonl"
    Archive(path).add(archived_run())
    path.write_text(path.read_text().replace('{"run"', '{"mood": "good", "run"'))
    assert Archive(path).read() == [archived_run()]


def test_several_write_at_once(tmp_path: Path) -> None:
    runs = [archived_run(f"{number:016x}") for number in range(40)]
    archive = Archive(tmp_path / "archive.jsonl")

    def add(part: list[ArchivedRun]) -> None:
        for run in part:
            archive.add(run)

    threads = [threading.Thread(target=add, args=(runs[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(archive.read(), key=lambda archived: archived.run) == runs


def test_what_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match="KERNELWRIGHT_ARCHIVE"):
        Archive(tmp_path / "file" / "archive.jsonl").add(archived_run())
