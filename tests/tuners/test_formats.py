"""Every form of a recorded search is read; what is none of them gets one line that says where and what to do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.core import (
    Config,
    Correctness,
    Evaluation,
    JournalError,
    KernelwrightError,
    Measurement,
    OptionError,
    ResultsError,
    SpaceError,
    Status,
    Trial,
)
from kernelwright.tuners.formats import read_recording, write_csv, write_t4
from kernelwright.tuners.recording import Recording, Result

CSV = """\
BLOCK,MODE,FAST,time_ms,compile_s,status
16,row,true,2.5,1.25,ok
32,row,false,,0.5,compile_error
32,col,true,1.5,,
64,col,false,,,
"""
RESULTS = {
    Config({"BLOCK": 16, "MODE": "row", "FAST": True}): Result(2.5, Status.OK, 1.25),
    Config({"BLOCK": 32, "MODE": "row", "FAST": False}): Result(None, Status.COMPILE_ERROR, 0.5),
    Config({"BLOCK": 32, "MODE": "col", "FAST": True}): Result(1.5),
    Config({"BLOCK": 64, "MODE": "col", "FAST": False}): Result(None, Status.RUNTIME_ERROR),
}
CACHE = """{
"device_name": "A GPU",
"kernel_name": "k",
"problem_size": 100,
"tune_params_keys": ["x", "y"],
"tune_params": {"x": [16, 32, 64], "y": [1]},
"objective": "time",
"cache": {
"16,1": {"x": 16, "y": 1, "time": 0.5, "times": [0.6, 0.4], "compile_time": 250.0, "framework_time": 1.0},
"32,1": {"x": 32, "y": 1, "time": "CompilationFailedConfig", "compile_time": 0},
"64,1": {"x": 64, "y": 1, "time": "RuntimeFailedConfig", "__error__": "RuntimeFailedConfig"}"""
CACHED = {
    Config({"x": 16, "y": 1}): Result(0.5, Status.OK, 0.25, (0.6, 0.4)),
    Config({"x": 32, "y": 1}): Result(None, Status.COMPILE_ERROR, 0.0),
    Config({"x": 64, "y": 1}): Result(None, Status.RUNTIME_ERROR),
}


def written(tmp_path: Path, text: str | bytes, name: str = "recording") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refused(tmp_path: Path, text: str | bytes, error: type[KernelwrightError], says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(error) as caught:
        read_recording(path)
    message = str(caught.value)
    assert says in message, message
    assert str(path) in message and "\n" not in message


def evaluation(config: dict[str, Any], result: float | Status, digest: str = "aaaa") -> Evaluation:
    if isinstance(result, Status):
        return Evaluation(status=result, kernel_digest=digest, config=config, message="as told", compile_s=0.5)
    return Evaluation(
        status=Status.OK,
        kernel_digest=digest,
        config=config,
        correctness=Correctness(seeds=(1,), max_abs_error=0, max_rel_error=0, tolerance=0, passed=True),
        measurement=Measurement(samples_ms=(result, 2 * result, 3 * result)),
    )


def journal(*evaluations: Evaluation) -> str:
    records = [{"kind": "run", "problem": "p"}]
    records += [Trial(origin="list", evaluation=evaluation, seconds=1.0).record() for evaluation in evaluations]
    return "".join(json.dumps(record) + "\n" for record in records)


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
    assert recording.results == {Config({"A": 1, "B": 2.5}): Result(3.0)}


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


@pytest.mark.parametrize("end", ["}\n}\n", "", ",", ',\n"128,1": {"x": 128, "ti'])
def test_kernel_tuner_cache(tmp_path: Path, end: str) -> None:
    assert read_recording(written(tmp_path, CACHE + end)).results == CACHED


def t4(**changes: Any) -> dict[str, Any]:
    return {
        "configuration": {"x": 16, "mode": "a", "fast": True},
        "times": {"compilation_time": 2.0, "runtimes": [0.001, 0.003]},
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [{"name": "time", "value": 2.0, "unit": "ms"}, {"name": "power", "value": 9, "unit": "W"}],
        "objectives": ["time"],
    } | changes


def t4_file(*results: dict[str, Any], **changes: Any) -> str:
    return json.dumps({"schema_version": "1.0.0", "results": list(results)} | changes)


def test_t4(tmp_path: Path) -> None:
    """Without a stated unit the times are seconds; a measurement has a unit of its own."""
    failed = [
        t4(configuration={"x": x, "mode": "a", "fast": True}, times={}, invalidity=word, measurements=[])
        for x, word in enumerate(["timeout", "compile", "runtime", "correctness", "constraints"])
    ]
    recording = read_recording(written(tmp_path, t4_file(t4(), *failed)))
    first, *others = recording.results.values()
    assert first == Result(2.0, Status.OK, 2.0, (1.0, 3.0))
    assert [result.status.value for result in others] == [
        "timeout", "compile_error", "runtime_error", "wrong_value", "rejected"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "time_ms"),
    [
        ({"measurements": [{"name": "time", "value": 2.0}]}, 2000.0),
        ({"measurements": [{"name": "Total", "value": 5e6, "unit": "nanoseconds"}], "objectives": ["Total"]}, 5.0),
        ({"measurements": [{"name": "power", "value": 1.0, "unit": "W"}], "objectives": ["power"]}, 2.0),
        ({"measurements": []}, 2.0),
    ],
)
def test_where_t4_has_its_time(tmp_path: Path, changes: dict[str, Any], time_ms: float) -> None:
    recording = read_recording(written(tmp_path, t4_file(t4(**changes))))
    assert recording.best[1] == pytest.approx(time_ms)


def test_a_recording_tells_as_an_evaluator_would(tmp_path: Path) -> None:
    recording = read_recording(written(tmp_path, CSV))
    for config, result in RESULTS.items():
        told = recording.evaluation(config)
        assert (told.latency_ms, told.status, told.compile_s) == (result.time_ms, result.status, result.compile_s)
        assert told.config == config and recording.evaluation(config) is told
    with pytest.raises(SpaceError, match="does not hold BLOCK=1"):
        recording.evaluation(Config({"BLOCK": 1}))


TEXTS = st.text("abcXYZ ,\"'\n;é-", min_size=1).map(lambda text: f"t{text}t")
COLUMNS = (st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), TEXTS)
TIMES = st.floats(1e-9, 1e9)
SAMPLES = st.lists(TIMES, min_size=2, max_size=4).map(tuple) | st.just(())
RESULT = st.builds(Result, TIMES, st.just(Status.OK), st.none() | st.floats(0, 1e6), SAMPLES) | st.builds(
    Result, st.none(), st.sampled_from([status for status in Status if status is not Status.OK]), st.none()
)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    configs = st.tuples(*columns).map(lambda values: Config({f"P{i}": value for i, value in enumerate(values)}))
    results = draw(st.dictionaries(configs, RESULT, max_size=6))
    return Recording({**results, draw(configs): Result(1.0)})


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


@settings(max_examples=100, deadline=None)
@given(recording=recordings())
def test_t4_round_trip(tmp_path_factory: pytest.TempPathFactory, recording: Recording) -> None:
    path = tmp_path_factory.mktemp("t4") / "r.json"
    write_t4(path, recording)
    check_t4(json.loads(path.read_text()))
    back = read_recording(path)
    assert list(back.results) == list(recording.results)
    for read, wrote in zip(back.results.values(), recording.results.values(), strict=True):
        assert (read.time_ms, read.status, read.samples_ms) == (wrote.time_ms, wrote.status, wrote.samples_ms)
        # Seconds become milliseconds and seconds again.
        assert (read.compile_s is None) == (wrote.compile_s is None)
        assert read.compile_s is None or read.compile_s == pytest.approx(wrote.compile_s)


def check_t4(document: dict[str, Any]) -> None:
    """What the T4 results schema, version 1.0.0, asks for."""
    assert document["schema_version"] == "1.0.0"
    words = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}
    for result in document["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= set(result)
        assert result["invalidity"] in words and isinstance(result["correctness"], int | float)
        assert isinstance(result["times"]["runtimes"], list) and isinstance(result["objectives"], list)
        assert isinstance(result["times"].get("compilation_time", 0.0), float)
        for measurement in result["measurements"]:
            assert isinstance(measurement["name"], str) and isinstance(measurement["unit"], str)
            assert isinstance(measurement["value"], int | float | str | list)


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


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"A": "16"}, "would read as 16"),
        ({"A": ""}, "CSV cannot hold A=''"),
        ({"A": "true"}, "would read as True"),
        ({"A": " x"}, "would read as 'x'"),
        ({"A": float("inf")}, "would read as 'inf'"),
        ({"status": 1}, "a parameter of the name status"),
    ],
)
def test_what_a_csv_cannot_hold(tmp_path: Path, config: dict[str, Any], says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        write_csv(tmp_path / "out.csv", [evaluation(config, 1.0)])
    assert not (tmp_path / "out.csv").exists()


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
        ("time_ms,status\n1,ok\n", SpaceError, "line 1 names no parameters"),
        ("A,A,time_ms\n1,1,1\n", SpaceError, "names the column A twice"),
        ("A,time_ms,B\n1,1,1\n", SpaceError, "column 'B' stands behind time_ms"),
        ("A,time_ms\n", SpaceError, "holds no measured config"),
        ("A,B,time_ms\n1,2,3\n1,3\n", SpaceError, "line 3 has 2 cells instead of 3"),
        ("A,B,time_ms\n1,2,3\n1,,3\n", SpaceError, "line 3 has no B"),
        ("A,time_ms\n1,fast\n", SpaceError, "line 2: time_ms is 'fast'"),
        ("A,time_ms\n1,-1\n", SpaceError, "line 2: time_ms is '-1'"),
        ("A,time_ms\n1,0\n", SpaceError, "no number above 0; leave the cell of a failure empty"),
        ("A,time_ms\n1,nan\n", SpaceError, "time_ms is 'nan'"),
        ("A,time_ms\n1,1e999\n", SpaceError, "time_ms is '1e999'"),
        ("A,time_ms,compile_s\n1,1,-2\n", SpaceError, "compile_s is '-2'"),
        ("A,time_ms,samples_ms\n1,1,1 x\n", SpaceError, "samples_ms is 'x'"),
        ("A,time_ms,status\n1,1,fine\n", SpaceError, "status 'fine' is unknown; use one of ok, rejected"),
        ("A,time_ms,status\n1,1,timeout\n", SpaceError, "status timeout with a time"),
        ("A,time_ms,status\n1,,ok\n", SpaceError, "status ok without a time"),
        ("A,time_ms\n1,1\n2,1\n1,2\n", SpaceError, "line 4 repeats the config of line 2"),
        ("A,time_ms\n1,\n2,\n", SpaceError, "every config of"),
        ('A,time_ms\n"1,2\n', OptionError, "is no CSV"),
        ("[1, 2", OptionError, "is no valid JSON"),
        ("[1, 2]", OptionError, "its JSON is neither"),
        ('{"cache": {}}', OptionError, "its JSON is neither"),
        ('{"kind":"run"}\nrubbish\n{"kind":"run"}\n', JournalError, "line 2 is corrupt"),
        ('{"kind":"run"}\n{"kind":"trial","origin":"x"}\n', JournalError, "line 2 is no trial: evaluation"),
        ('{"kind":"run"}\n', JournalError, "holds no measured config"),
        ('{"kind":"ru', JournalError, "holds no measured config"),
        (journal(evaluation({"A": 1}, Status.TIMEOUT)), SpaceError, "every config of"),
        (journal(evaluation({"A": 1}, 1.0), evaluation({"B": 1}, 1.0)), SpaceError, "name the same parameters"),
        (CACHE.replace('"time": 0.5', '"time": 0'), SpaceError, "cache entry '16,1': time is 0"),
        (CACHE.replace('"time": 0.5', '"time": NaN'), SpaceError, "cache entry '16,1': time is nan"),
        (CACHE.replace('"time": 0.5', '"rate": 1'), SpaceError, "cache entry '16,1' has no time"),
        (CACHE.replace('"time": 0.5', '"time": "SomeError"'), SpaceError, "time is 'SomeError'"),
        (CACHE.replace('{"x": 16, "y": 1,', '{"x": 16,'), SpaceError, "parameter y is missing"),
        (CACHE.replace('{"x": 16,', '{"x": [1],'), SpaceError, "parameter x is [1]"),
        (CACHE.replace('["x", "y"]', "[]"), SpaceError, "has no parameters"),
        (CACHE.replace('["x", "y"]', '"x"'), SpaceError, "damaged Kernel Tuner cache"),
        (CACHE.partition('"16,1"')[0], SpaceError, "holds no measured config"),
        (t4_file(), SpaceError, "holds no measured config"),
        (t4_file(t4(), t4()), SpaceError, "result 2 repeats"),
        (t4_file(t4(), t4(configuration={"x": 1, "z": 1})), SpaceError, "has parameter z, which the first one lacks"),
        (t4_file(t4(), t4(configuration={"x": 1})), SpaceError, "result 2: parameter mode is missing"),
        (t4_file(t4(configuration=None)), SpaceError, "result 1 has no configuration"),
        (t4_file(t4(times=None)), SpaceError, "result 1 has no times"),
        (t4_file(t4(invalidity="maybe")), SpaceError, "invalidity is 'maybe'"),
        (t4_file(t4(measurements=[], times={})), SpaceError, "neither a measurement named time nor runtimes"),
        (t4_file(t4(measurements=[{"name": "time", "value": -1}])), SpaceError, "time is -1"),
        (t4_file(t4(), metadata={"timeunit": "fortnights"}), SpaceError, "time unit 'fortnights' is unknown"),
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
