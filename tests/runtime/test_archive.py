"""What a command remembers: the archive, and the journals of a results folder that it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Archive, Journal
from kernelwright.core.files import archive_path
from kernelwright.runtime.archive import EarlierRuns

from ..made_up_runs import journal, records


def test_a_run_that_ended_survives_its_results_folder(tmp_path: Path) -> None:
    with Journal(journal(tmp_path, records())) as ended:
        EarlierRuns(tmp_path, pytest.fail).add(ended)
    ended.path.unlink()
    (found,) = EarlierRuns(tmp_path, pytest.fail).runs()
    assert found.problem == "level1/1_1" and found.improvement is not None
    assert found.origin is not None and not found.origin.imported
    assert (found.origin.folder, found.origin.project) == (str(tmp_path), str(Path.cwd()))
    assert found.origin.user and found.origin.host


def test_a_journal_that_the_archive_lacks_counts_and_enters_it_on_request(tmp_path: Path) -> None:
    journal(tmp_path, records()[:8])  # cut off
    journal(tmp_path, [{"kind": "trial", "search": True}], "1_P_tilelang_cpu_tune_0123")
    earlier = EarlierRuns(tmp_path, pytest.fail)
    assert len(earlier.runs()) == 1 and not archive_path().exists()
    assert earlier.runs(enter=True) == earlier.runs() == Archive(archive_path()).read()
    size = archive_path().stat().st_size
    assert len(earlier.runs(enter=True)) == 1 and archive_path().stat().st_size == size
    with Journal(journal(tmp_path, records())) as ended:  # it went on, to its end
        earlier.add(ended)
    (found,) = earlier.runs()
    assert found.improvement is not None


def test_the_archive_can_be_left_out(tmp_path: Path) -> None:
    earlier = EarlierRuns(tmp_path, pytest.fail, use=False)
    with Journal(journal(tmp_path, records())) as ended:
        earlier.add(ended)
    assert earlier.runs(enter=True) == [] and not archive_path().exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [*lines[:3], {"kind": "trial"}, *lines[3:]],
        lambda lines: [line for line in lines if line["kind"] != "kernel"],
        lambda lines: [{**line, "source": "no kernel"} if line["kind"] == "kernel" else line for line in lines],
    ],
)
def test_a_journal_that_makes_no_sense_is_reported_and_left_out(tmp_path: Path, damage: Any) -> None:
    journal(tmp_path, damage(records(problem="level1/1_2")), "bad")
    journal(tmp_path, records())
    notes: list[str] = []
    assert len(EarlierRuns(tmp_path, notes.append).runs()) == 1
    assert len(notes) == 1


def test_an_archive_that_cannot_be_written_costs_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNELWRIGHT_ARCHIVE", str(tmp_path / "file" / "archive.jsonl"))
    notes: list[str] = []
    with Journal(journal(tmp_path, records())) as ended:
        EarlierRuns(tmp_path, notes.append).add(ended)
    assert len(notes) == 1 and "cannot write" in notes[0]
