"""A recording's form is told from its content; what has none gets one line that says where and what to do."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import (
    Config,
    JournalError,
    KernelwrightError,
    OptionError,
    ResultsError,
    SpaceError,
    Status,
)
from kernelwright.tuners.formats import read_recording, write_csv, write_t4
from kernelwright.tuners.recording import Result

from .recordings import CSV, RESULTS, evaluation, journal, refused, written


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
        Config({"A": 1}): Result(8.0, samples_ms=(4.0, 8.0, 12.0)),
        Config({"A": 2}): Result(None, Status.TIMEOUT, 0.5),
    }


def test_journal_of_several_kernels(tmp_path: Path) -> None:
    text = journal(evaluation({"A": 1}, 5.0), evaluation({"A": 2}, 4.0), evaluation({"A": 1}, 1.0, digest="bbbb"))
    refused(tmp_path, text, JournalError, "2 kernels: aaaa (2 trials), bbbb (1 trials); choose one with")
    path = tmp_path / "recording"
    assert read_recording(path, "bb").best == (Config({"A": 1}), 2.0)
    with pytest.raises(JournalError, match="no measured config of kernel cc"):
        read_recording(path, "cc")


def test_a_recording_tells_as_an_evaluator_would(tmp_path: Path) -> None:
    recording = read_recording(written(tmp_path, CSV))
    for config, result in RESULTS.items():
        told = recording.evaluation(config)
        assert (told.latency_ms, told.status, told.compile_s) == (result.time_ms, result.status, result.compile_s)
        assert told.config == config and recording.evaluation(config) is told
    with pytest.raises(SpaceError, match="does not hold BLOCK=1"):
        recording.evaluation(Config({"BLOCK": 1}))


@pytest.mark.parametrize("write", [write_csv, write_t4])
def test_a_live_search_is_written(tmp_path: Path, write: Any) -> None:
    """Of two verdicts on a config the last one counts; other constants of the kernel are left out."""
    live = [
        evaluation({"A": 1, "flags": "-O3"}, 5.0),
        evaluation({"A": 2, "flags": "-O3"}, Status.WRONG_SHAPE),
        evaluation({"A": 1, "flags": "-O3"}, 4.0),
    ]
    write(tmp_path / "out", iter(live), ["A"])
    assert read_recording(tmp_path / "out").results == {
        Config({"A": 1}): Result(8.0, samples_ms=(4.0, 8.0, 12.0)),
        Config({"A": 2}): Result(None, Status.WRONG_SHAPE, 0.5),
    }


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="nothing to write"):
        write_t4(tmp_path / "out", [])
    with pytest.raises(SpaceError, match="has no B; all must name A, B"):
        write_csv(tmp_path / "out", [evaluation({"A": 1}, 1.0)], ["A", "B"])
    with pytest.raises(ResultsError, match="choose another path"):
        write_csv(Path(__file__) / "below-a-file.csv", [evaluation({"A": 1}, 1.0)])


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("", OptionError, "is empty"),
        (" \n\n", OptionError, "is empty"),
        (b"\xff\xfe\x00\x01", OptionError, "is no text"),
        (b"\x1f\x8b\x08rest", OptionError, "damaged gzip"),
        ("import torch\n", OptionError, "names no column time_ms"),
        ("A,B,time\n1,2,3\n", OptionError, "names no column time_ms"),
        ("[1, 2", OptionError, "is no valid JSON"),
        ("[1, 2]", OptionError, "its JSON is neither"),
        ('{"cache": {}}', OptionError, "its JSON is neither"),
        ('{"kind":"run"}\nrubbish\n{"kind":"run"}\n', JournalError, "line 2 is corrupt"),
        ('{"kind":"run"}\n{"kind":"trial","origin":"x"}\n', JournalError, "line 2 is no trial: evaluation"),
        ('{"kind":"run"}\n', JournalError, "holds no measured config"),
        ('{"kind":"ru', JournalError, "holds no measured config"),
        (journal(evaluation({"A": 1}, Status.TIMEOUT)), SpaceError, "every config of"),
        (journal(evaluation({"A": 1}, 1.0), evaluation({"B": 1}, 1.0)), SpaceError, "name the same parameters"),
    ],
)  # fmt: skip
def test_bad_input(tmp_path: Path, text: str | bytes, error: type[KernelwrightError], says: str) -> None:
    refused(tmp_path, text, error, says)


def test_a_packed_journal_is_named_by_its_own_path(tmp_path: Path) -> None:
    refused(tmp_path, gzip.compress(b'{"kind":"run"}\nrubbish\n{}\n'), JournalError, "line 2 is corrupt")


@pytest.mark.parametrize("name", ["nowhere.csv", "."])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match="cannot read"):
        read_recording(tmp_path / name)


def test_a_digest_belongs_to_a_journal(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is no journal"):
        read_recording(written(tmp_path, CSV), kernel="aaaa")
