"""The JSON files of other tuners: Kernel Tuner's cache and T4 results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from kernelwright.core import (
    Config,
    KernelwrightError,
    SpaceError,
    Status,
)
from kernelwright.tuners.formats import read_recording, write_t4
from kernelwright.tuners.recording import Recording, Result

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
    Config({"x": 16, "y": 1}): Result(0.5, Status.OK, 0.25, (0.6, 0.4)),
    Config({"x": 32, "y": 1}): Result(None, Status.COMPILE_ERROR, 0.0),
    Config({"x": 64, "y": 1}): Result(None, Status.RUNTIME_ERROR),
}


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
