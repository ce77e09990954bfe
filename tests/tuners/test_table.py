"""Recordings as CSV: what is read, written, and refused with the line that is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.core import Config, KernelwrightError, OptionError, SpaceError
from kernelwright.tuners.formats import read_recording, write_csv
from kernelwright.tuners.recording import RecordedResult, Recording

from .recordings import CSV, RESULTS, evaluation, recordings, refused, written


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzipped"])
def test_csv(tmp_path: Path, pack: Any) -> None:
    recording = read_recording(written(tmp_path, pack(CSV.encode())))
    assert recording.results == RESULTS
    assert recording.best == (Config({"BLOCK": 32, "MODE": "col", "FAST": True}), 1.5)
    assert recording.space.size == 4 and recording.space.names == ("BLOCK", "MODE", "FAST")
    assert {type(value) for config in recording.results for value in config.values()} == {int, str, bool}


def test_csv_from_other_programs(tmp_path: Path) -> None:
    """A byte order mark, line ends of Windows, blanks around cells, an empty line at the end."""
    recording = read_recording(written(tmp_path, "\ufeffA, B , time_ms\r\n1, 2.5 , 3.0\r\n\r\n".encode()))
    assert recording.results == {Config({"A": 1, "B": 2.5}): RecordedResult(3.0)}


@settings(max_examples=150, deadline=None)
@given(recording=recordings(), packed=st.booleans())
def test_csv_round_trip(tmp_path_factory: pytest.TempPathFactory, recording: Recording, packed: bool) -> None:
    path = tmp_path_factory.mktemp("csv") / ("r.csv.gz" if packed else "r.csv")
    write_csv(path, recording)
    back = read_recording(path)
    assert back.results == recording.results
    assert [[type(v) for v in c.values()] for c in back.results] == [
        [type(v) for v in c.values()] for c in recording.results
    ]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"A": "16"}, "would read as 16"),
        ({"A": ""}, "CSV cannot hold A=''"),
        ({"A": "true"}, "would read as True"),
        ({"A": " x"}, "would read as 'x'"),
        ({"A": "1e999"}, "would read as inf"),
        ({"A": "half \ud800"}, "CSV cannot hold A="),
        ({"status": 1}, "a parameter of the name 'status'"),
        ({" A": 1}, "a parameter of the name ' A'"),
        ({"": 1}, "a parameter of the name ''"),
    ],
)
def test_what_a_csv_cannot_hold(tmp_path: Path, config: dict[str, Any], says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        write_csv(tmp_path / "out.csv", [evaluation(config, 1.0)])
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("time_ms,status\n1,ok\n", SpaceError, "line 1 names no parameters"),
        ("A,A,time_ms\n1,1,1\n", SpaceError, "names the column A twice"),
        ("A,time_ms,B\n1,1,1\n", SpaceError, "column 'B' stands after time_ms"),
        ("A,time_ms\n", SpaceError, "contains no measured config"),
        ("A,B,time_ms\n1,2,3\n1,3\n", SpaceError, "line 3 has 2 cells instead of 3"),
        ("A,B,time_ms\n1,2,3\n1,,3\n", SpaceError, "line 3 has no B"),
        ("A,time_ms\n1,fast\n", SpaceError, "line 2: time_ms is 'fast'"),
        ("A,time_ms\n1,-1\n", SpaceError, "line 2: time_ms is '-1'"),
        ("A,time_ms\n1,0\n", SpaceError, "not a number above 0; leave the cell of a failure empty"),
        ("A,time_ms\n1,nan\n", SpaceError, "time_ms is 'nan'"),
        ("A,time_ms\n1,1e999\n", SpaceError, "time_ms is '1e999'"),
        ("A,time_ms,compile_s\n1,1,-2\n", SpaceError, "compile_s is '-2'"),
        ("A,time_ms,samples_ms\n1,1,1 x\n", SpaceError, "samples_ms is 'x'"),
        ("A,time_ms,status\n1,1,fine\n", SpaceError, "status 'fine' is unknown; use one of ok, unproven, rejected"),
        ("A,time_ms,status\n1,1,timeout\n", SpaceError, "status timeout with a time"),
        ("A,time_ms,status\n1,,ok\n", SpaceError, "status ok without a time"),
        ("A,time_ms\n1,1\n2,1\n1,2\n", SpaceError, "line 4 repeats the config of line 2"),
        ("A,time_ms\n1,\n2,\n", SpaceError, "every config of"),
        ('A,time_ms\n"1,2\n', OptionError, "is not CSV"),
        ("A,time_ms\n1,1\n-1e999,1\n", SpaceError, "line 3: '-1e999' is too large a number"),
    ],
)  # fmt: skip
def test_bad_input(tmp_path: Path, text: str | bytes, error: type[KernelwrightError], says: str) -> None:
    refused(tmp_path, text, error, says)


def test_more_digits_than_python_converts(tmp_path: Path) -> None:
    huge = "9" * 5000
    short = "'999999999999...9999999999999'"
    refused(tmp_path, f"A,time_ms\n1,1\n{huge},1\n", SpaceError, f"line 3: {short} is too large a number; fix it")
    refused(tmp_path, f"A,time_ms\n1,{huge}\n", SpaceError, f"line 2: time_ms is {short}")
    refused(tmp_path, f"A,time_ms,compile_s\n1,1,{huge}\n", SpaceError, f"line 2: compile_s is {short}")
    refused(tmp_path, f"A,time_ms,samples_ms\n1,1,1 {huge}\n", SpaceError, f"line 2: samples_ms is {short}")
