"""Recorded searches for tests: files, verdicts, and recordings at random."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from kernelwright.core import Config, Correctness, Evaluation, KernelwrightError, Measurement, Status, Trial
from kernelwright.tuners.formats import read_recording
from kernelwright.tuners.recording import RecordedResult, Recording

CSV = """\
BLOCK,MODE,FAST,time_ms,compile_s,status
16,row,true,2.5,1.25,ok
32,row,false,,0.5,compile_error
32,col,true,1.5,,
64,col,false,,,
"""
RESULTS = {
    Config({"BLOCK": 16, "MODE": "row", "FAST": True}): RecordedResult(2.5, Status.OK, 1.25),
    Config({"BLOCK": 32, "MODE": "row", "FAST": False}): RecordedResult(None, Status.COMPILE_ERROR, 0.5),
    Config({"BLOCK": 32, "MODE": "col", "FAST": True}): RecordedResult(1.5),
    Config({"BLOCK": 64, "MODE": "col", "FAST": False}): RecordedResult(None, Status.RUNTIME_ERROR),
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
    records += [Trial(origin="list", evaluation=evaluation, seconds=1.0).to_json() for evaluation in evaluations]
    return "".join(json.dumps(record) + "\n" for record in records)


TEXTS = st.text("abcXYZ ,\"'\n;é-", min_size=1).map(lambda text: f"t{text}t")
COLUMNS = (st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), TEXTS)
TIMES = st.floats(1e-9, 1e9)
SAMPLES = st.lists(TIMES, min_size=2, max_size=4).map(tuple) | st.just(())
RESULT = st.builds(RecordedResult, TIMES, st.just(Status.OK), st.none() | st.floats(0, 1e6), SAMPLES) | st.builds(
    RecordedResult, st.none(), st.sampled_from([status for status in Status if status is not Status.OK]), st.none()
)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    configs = st.tuples(*columns).map(lambda values: Config({f"P{i}": value for i, value in enumerate(values)}))
    results = draw(st.dictionaries(configs, RESULT, max_size=6))
    return Recording({**results, draw(configs): RecordedResult(1.0)})
