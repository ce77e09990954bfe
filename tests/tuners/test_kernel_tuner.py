"""The JSON files of other tuners: Kernel Tuner's cache and T4 results."""

from __future__ import annotations

import copy
import functools
import json
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from kernelwright.core import Config, KernelwrightError, SpaceError, Status
from kernelwright.tuners.formats import read_recording, write_t4
from kernelwright.tuners.recording import RecordedResult, Recording

from .recordings import recordings, refused, written

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
    Config({"x": 16, "y": 1}): RecordedResult(0.5, Status.OK, 0.25, (0.6, 0.4)),
    Config({"x": 32, "y": 1}): RecordedResult(None, Status.COMPILE_ERROR, 0.0),
    Config({"x": 64, "y": 1}): RecordedResult(None, Status.RUNTIME_ERROR),
}


@pytest.mark.parametrize("end", ["}\n}\n", "", ",", ',\n"128,1": {"x": 128, "ti'])
def test_kernel_tuner_cache(tmp_path: Path, end: str) -> None:
    assert read_recording(written(tmp_path, CACHE + end)).results == CACHED


@pytest.mark.parametrize("never", ["1e20", "1e+20", "1.7976931348623157e308"])
def test_the_time_of_a_config_that_never_ran_is_a_failure(tmp_path: Path, never: str) -> None:
    entry = f',\n"128,1": {{"x": 128, "y": 1, "time": {never}, "times": [{never}]}}'
    read = read_recording(written(tmp_path, CACHE + entry)).results
    assert read == {**CACHED, Config({"x": 128, "y": 1}): RecordedResult(None, Status.REJECTED)}
    tried = by_kernel_tuner(1024, float(never), "correct", [float(never)])
    found = read_recording(written(tmp_path, t4_file(tried, by_kernel_tuner(64, 0.5, "correct", [])), "t4.json"))
    assert found.results[Config({"block_size_x": 1024})] == RecordedResult(None, Status.REJECTED, 0.25)


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
    assert first == RecordedResult(2.0, Status.OK, 2.0, (1.0, 3.0))
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


def by_kernel_tuner(x: int, time: float | str, invalidity: str, runtimes: list[float]) -> dict[str, Any]:
    """A result as Kernel Tuner's `store_output_file` writes it: all times are milliseconds, which it says of one."""
    spent = {"benchmark": 8.5, "framework": 1.25, "search_algorithm": 0.5, "validation": 0.0}
    return {
        "timestamp": "2024-05-02 09:11:27.100000+00:00",
        "configuration": {"block_size_x": x},
        "times": {"compilation": 250.0, **spent, "runtimes": runtimes},
        "invalidity": invalidity,
        "correctness": 1,
        "measurements": [{"name": "time", "value": time, "unit": "ms"}, {"name": "GFLOP/s", "value": 3.5, "unit": ""}],
        "objectives": ["time"],
    }


def test_t4_of_kernel_tuner(tmp_path: Path) -> None:
    right = by_kernel_tuner(64, 0.5, "correct", [0.625, 0.5])
    failed = by_kernel_tuner(1024, "CompilationFailedConfig", "compile", [])
    read = read_recording(written(tmp_path, t4_file(right, failed))).results
    assert read == {
        Config({"block_size_x": 64}): RecordedResult(0.5, Status.OK, 0.25, (0.625, 0.5)),
        Config({"block_size_x": 1024}): RecordedResult(None, Status.COMPILE_ERROR, 0.25),
    }


@pytest.mark.parametrize(
    ("times", "metadata"),
    [
        ({"compilation": 0.25}, {"timeunit": "seconds"}),
        ({"compilation": 9.0, "compilation_time": 0.25}, {}),
        ({"compilation_time": 250.0}, {"timeunit": "milliseconds"}),
    ],
)
def test_a_unit_that_is_stated_counts(tmp_path: Path, times: dict[str, float], metadata: dict[str, str]) -> None:
    recording = read_recording(written(tmp_path, t4_file(t4(times=times), metadata=metadata)))
    assert [result.compile_s for result in recording.results.values()] == [0.25]


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


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (CACHE.replace('"time": 0.5', '"time": 0'), SpaceError, "cache entry '16,1': time is 0"),
        (CACHE.replace('"time": 0.5', '"time": NaN'), SpaceError, "cache entry '16,1': time is nan"),
        (CACHE.replace('"time": 0.5', '"rate": 1'), SpaceError, "cache entry '16,1' has no time"),
        (CACHE.replace('"time": 0.5', '"time": "SomeError"'), SpaceError, "time is 'SomeError'"),
        (CACHE.replace('{"x": 16, "y": 1,', '{"x": 16,'), SpaceError, "parameter y is missing"),
        (CACHE.replace('{"x": 16,', '{"x": [1],'), SpaceError, "parameter x is [1]"),
        (CACHE.replace('["x", "y"]', "[]"), SpaceError, "has no parameters"),
        (CACHE.replace('["x", "y"]', '"x"'), SpaceError, "damaged Kernel Tuner cache"),
        (CACHE.replace('["x", "y"]', '["x", ["y"]]'), SpaceError, "tune_params_keys is not a list of names"),
        (CACHE.partition('"16,1"')[0], SpaceError, "contains no measured config"),
        (t4_file(), SpaceError, "contains no measured config"),
        (t4_file(t4(), t4()), SpaceError, "result 2 repeats"),
        (t4_file(t4(), t4(configuration={"x": 1, "z": 1})), SpaceError, "has parameter z, which the first one lacks"),
        (t4_file(t4(), t4(configuration={"x": 1})), SpaceError, "result 2: parameter mode is missing"),
        (t4_file(t4(configuration=None)), SpaceError, "result 1 has no configuration"),
        (t4_file(t4(times=None)), SpaceError, "result 1 has no times"),
        (t4_file(t4(invalidity="maybe")), SpaceError, "invalidity is 'maybe'"),
        (t4_file(t4(invalidity=["correct"])), SpaceError, "result 1: invalidity is ['correct']"),
        (t4_file(t4(objectives=5)), SpaceError, "result 1: objectives is 5, which is not a list"),
        (t4_file(t4(measurements=[{"name": "time", "value": 1, "unit": ["ms"]}])), SpaceError, "time unit ['ms']"),
        (t4_file(t4(measurements=[{"name": "time", "value": 1e306}])), SpaceError, "result 1: time is 1e+306"),
        (t4_file(t4(configuration={"x": float("inf")})), SpaceError, "result 1: parameter x is inf"),
        (t4_file(t4(measurements=[], times={})), SpaceError, "neither a measurement named time nor runtimes"),
        (t4_file(t4(measurements=[{"name": "time", "value": -1}])), SpaceError, "time is -1"),
        (t4_file(t4(), metadata={"timeunit": "fortnights"}), SpaceError, "time unit 'fortnights' is unknown"),
    ],
)  # fmt: skip
def test_bad_input(tmp_path: Path, text: str | bytes, error: type[KernelwrightError], says: str) -> None:
    refused(tmp_path, text, error, says)


@pytest.mark.parametrize("digits", [400, 5000])
def test_an_integer_that_no_float_can_hold(tmp_path: Path, digits: int) -> None:
    huge = "9" * digits
    refused(tmp_path, CACHE.replace('"time": 0.5', f'"time": {huge}'), SpaceError, "entry '16,1': time is inf")
    refused(tmp_path, CACHE.replace('{"x": 16', f'{{"x": {huge}'), SpaceError, "entry '16,1': parameter x is inf")
    refused(tmp_path, t4_file(t4()).replace("2.0", huge), SpaceError, "result 1: compilation_time is inf")


NUMBERS = [True, -1, 0, 5, 1e308, float("nan"), float("inf"), 10**400]
JUNK = [*NUMBERS, "HUGE", "", "junk", "\ud800", None, [], [[]], {}, {"a": []}]
T4 = json.loads(t4_file(t4(), t4(configuration={"x": 32}, invalidity="timeout"), metadata={"timeunit": "ms"}))


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all that is inside a document."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, inner in pairs:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def read_or_refused(path: Path) -> Recording | None:
    """A recording, or None where one line refuses the file and names it."""
    try:
        return read_recording(path)
    except KernelwrightError as error:
        refusal = str(error)
    assert str(path) in refusal and "\n" not in refusal
    return None


@pytest.mark.parametrize("document", [json.loads(CACHE + "}}"), T4], ids=["cache", "t4"])
def test_whatever_stands_in_a_file_is_read_or_refused(tmp_path: Path, document: dict[str, Any]) -> None:
    """A recording that is read can be given to a tuner and written again; a refusal is one line with the file."""
    for place in places(document):
        for junk in JUNK:
            damaged = copy.deepcopy(document)
            functools.reduce(operator.getitem, place[:-1], damaged)[place[-1]] = junk
            path = written(tmp_path, json.dumps(damaged).replace('"HUGE"', "9" * 5000))
            recording = read_or_refused(path)
            if recording is None:
                continue
            assert all(recording.evaluation(config) for config in recording.results)
            write_t4(tmp_path / "again", recording)
            assert list(read_recording(tmp_path / "again").results) == list(recording.results)
