"""A recording's format is detected from its content; an unknown one gives one line with the place and the fix."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Budget, Config, JournalError, KernelwrightError, OptionError, SpaceError, Status
from kernelwright.tuners.formats import read_recording, write_csv
from kernelwright.tuners.recording import RecordedResult

from .recordings import CSV, evaluation, journal, refused, written
from .searching import SPACE, Table, search


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzipped"])
def test_journal(tmp_path: Path, pack: Any) -> None:
    text = journal(
        evaluation({}, 7.0),
        evaluation({"A": 1}, 5.0),
        evaluation({"A": 2}, Status.TIMEOUT),
        evaluation({"A": 1}, 4.0),
    )
    recording = read_recording(written(tmp_path, pack((text + '{"kind":"trial","orig').encode())))
    assert recording.results == {
        Config({"A": 1}): RecordedResult(8.0, samples_ms=(4.0, 8.0, 12.0)),
        Config({"A": 2}): RecordedResult(None, Status.TIMEOUT, 0.5),
    }


def test_journal_of_several_kernels(tmp_path: Path) -> None:
    text = journal(evaluation({"A": 1}, 5.0), evaluation({"A": 2}, 4.0), evaluation({"A": 1}, 1.0, digest="bbbb"))
    refused(tmp_path, text, JournalError, "2 kernels: aaaa (2 trials), bbbb (1 trials); choose one with")
    path = tmp_path / "recording"
    assert read_recording(path, "bb").best == (Config({"A": 1}), 2.0)
    with pytest.raises(JournalError, match="no measured config of kernel cc"):
        read_recording(path, "cc")


def test_a_journal_reports_which_kernel_it_is_of(tmp_path: Path) -> None:
    text = journal(evaluation({"A": 1}, 5.0), evaluation({"A": 1}, 1.0, digest="bbbb"))
    assert read_recording(written(tmp_path, text), "bb").kernel == "bbbb"
    assert read_recording(written(tmp_path, CSV)).kernel is None


def test_a_journal_reads_as_the_table_of_its_search(tmp_path: Path) -> None:
    """Interleaved times of finalists do not compare with those of the search."""
    path, csv = tmp_path / "journal.jsonl", tmp_path / "trials.csv"
    table = Table(lambda config: 1.0 + 0.01 * int(config["A"]), lambda config: 0.9 - 0.01 * int(config["A"]))
    search(path, table, budget=Budget(trials=6))
    found = search(path, table)
    assert found.best is not None and found.best.config == {"A": 5}
    write_csv(csv, found.evaluations, SPACE.names)
    recording = read_recording(path)
    assert list(recording.results.items()) == list(read_recording(csv).results.items())
    assert recording.best == (Config({"A": 1}), 1.01)


def test_a_packed_journal_is_unpacked_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, gzip.compress(journal(evaluation({"A": 1}, 1.0)).encode()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert read_recording(path).best == (Config({"A": 1}), 2.0)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("", OptionError, "is empty"),
        (" \n\n", OptionError, "is empty"),
        (b"\xff\xfe\x00\x01", OptionError, "is not text"),
        (b"\x1f\x8b\x08rest", OptionError, "damaged gzip"),
        ("import torch\n", OptionError, "names no column time_ms"),
        ("A,B,time\n1,2,3\n", OptionError, "names no column time_ms"),
        ("[1, 2", OptionError, "is not valid JSON"),
        ("[1, 2]", OptionError, "its JSON is neither"),
        ('{"cache": {}}', OptionError, "its JSON is neither"),
        ('{"kind":"run"}\nrubbish\n{"kind":"run"}\n', JournalError, "line 2 is corrupt"),
        ('{"kind":"run"}\n{"kind":"trial","origin":"x"}\n', JournalError, "is not a valid trial record: evaluation"),
        ('{"kind":"run"}\n', JournalError, "contains no measured config"),
        ('{"kind":"ru', JournalError, "contains no measured config"),
        (journal(evaluation({"A": 1}, Status.TIMEOUT)), SpaceError, "every config of"),
        (journal(evaluation({"A": 1}, 1.0), evaluation({"B": 1}, 1.0)), SpaceError, "name the same parameters"),
    ],
)  # fmt: skip
def test_bad_input(tmp_path: Path, text: str | bytes, error: type[KernelwrightError], says: str) -> None:
    refused(tmp_path, text, error, says)


def test_brackets_without_end(tmp_path: Path) -> None:
    deep = "[" * 100_000
    refused(tmp_path, deep, OptionError, "is not valid JSON")
    refused(tmp_path, f'{{"kind":"run"}}\n{deep}\n', JournalError, "line 2 is corrupt")


def test_a_packed_journal_is_named_by_its_own_path(tmp_path: Path) -> None:
    refused(tmp_path, gzip.compress(b'{"kind":"run"}\nrubbish\n{}\n'), JournalError, "line 2 is corrupt")


@pytest.mark.parametrize("name", ["nowhere.csv", "."])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match="cannot read"):
        read_recording(tmp_path / name)


def test_a_digest_belongs_to_a_journal(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is not a journal"):
        read_recording(written(tmp_path, CSV), kernel="aaaa")
