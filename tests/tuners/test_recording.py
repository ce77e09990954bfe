"""A recording's results for a tuner, and the writing of recordings and live searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import (
    Config,
    Correctness,
    Evaluation,
    Measurement,
    Origin,
    ResultsError,
    SearchSpace,
    SpaceError,
    Status,
)
from kernelwright.tuners.formats import read_recording, write_csv, write_t4
from kernelwright.tuners.recording import RecordedResult, Recording, collect

from .recordings import CSV, RESULTS, evaluation, written

WRITERS = pytest.mark.parametrize("write", [write_csv, write_t4])


def timed(*samples_ms: float) -> Evaluation:
    return Evaluation(
        status=Status.OK,
        kernel_digest="aaaa",
        config={"A": 1},
        correctness=Correctness(seeds=(1,), max_abs_error=0, max_rel_error=0, tolerance=0, passed=True),
        measurement=Measurement(samples_ms=samples_ms),
        compile_s=0.25,
    )


@pytest.mark.parametrize(
    ("samples_ms", "result"),
    [
        ((3.0,), RecordedResult(3.0, Status.OK, 0.25)),
        ((3.0, 1.0, 2.0), RecordedResult(2.0, Status.OK, 0.25, (3.0, 1.0, 2.0))),
    ],
)
def test_a_single_sample_is_the_time_itself(samples_ms: tuple[float, ...], result: RecordedResult) -> None:
    assert RecordedResult.of(timed(*samples_ms)) == result


def test_a_recording_reports_as_an_evaluator_would(tmp_path: Path) -> None:
    recording = read_recording(written(tmp_path, CSV))
    for config, result in RESULTS.items():
        evaluation = recording.evaluation(config)
        assert (evaluation.latency_ms, evaluation.status, evaluation.compile_s) == (
            result.time_ms,
            result.status,
            result.compile_s,
        )
        assert evaluation.origin is Origin.RECORDED
        assert evaluation.config == config and recording.evaluation(config) is evaluation
    with pytest.raises(SpaceError, match="does not contain BLOCK=1"):
        recording.evaluation(Config({"BLOCK": 1}))


@WRITERS
def test_a_live_search_is_written(tmp_path: Path, write: Any) -> None:
    """Of two verdicts on a config the last one counts; other constants of the kernel are left out."""
    live = [
        evaluation({"A": 1, "flags": "-O3"}, 5.0),
        evaluation({"A": 2, "flags": "-O3"}, Status.WRONG_SHAPE),
        evaluation({"A": 1, "flags": "-O3"}, 4.0),
    ]
    write(tmp_path / "out", iter(live), ["A"])
    assert read_recording(tmp_path / "out").results == {
        Config({"A": 1}): RecordedResult(8.0, samples_ms=(4.0, 8.0, 12.0)),
        Config({"A": 2}): RecordedResult(None, Status.WRONG_SHAPE, 0.5),
    }


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="nothing to write"):
        write_t4(tmp_path / "out", [])
    with pytest.raises(SpaceError, match="has no B; all must name A, B"):
        write_csv(tmp_path / "out", [evaluation({"A": 1}, 1.0)], ["A", "B"])
    with pytest.raises(ResultsError, match="choose another path"):
        write_csv(Path(__file__) / "below-a-file.csv", [evaluation({"A": 1}, 1.0)])


@WRITERS
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 10**400])
def test_a_number_without_end_is_written_nowhere(tmp_path: Path, write: Any, value: float) -> None:
    with pytest.raises(SpaceError, match="parameter A has a value that is not a finite number; leave out") as caught:
        write(tmp_path / "out", Recording({Config({"A": value}): RecordedResult(1.0)}))
    assert "T4" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@WRITERS
def test_configs_with_different_results_do_not_become_one(tmp_path: Path, write: Any) -> None:
    recording = Recording(
        {Config({"A": 1, "B": 1, "C": 1}): RecordedResult(2.0), Config({"A": 1, "B": 2, "C": 1}): RecordedResult(1.0)}
    )
    with pytest.raises(SpaceError, match="configs with A=1 differ in B, C, and in their results; name B, C too"):
        write(tmp_path / "out", recording, ["A"])
    assert not (tmp_path / "out").exists()
    assert list(collect(recording, ["B", "A"])) == [Config({"A": 1, "B": 1}), Config({"A": 1, "B": 2})]


def test_configs_that_fared_alike_may_become_one() -> None:
    alike = Recording({Config({"A": 1, "B": b}): RecordedResult(2.0) for b in range(3)})
    assert collect(alike, ["A"]) == {Config({"A": 1}): RecordedResult(2.0)}


def config(a: int) -> Config:
    return Config({"A": a, "B": 1})


FARED = {
    config(0): RecordedResult(4.0),
    config(1): RecordedResult(None, Status.TIMEOUT),
    config(2): RecordedResult(5.0),
}
MADE_UP = Recording(FARED, name="made up")


def test_warm_start_from_another_recording() -> None:
    assert MADE_UP.within(SearchSpace.of({"B": [1], "A": [1, 2]})) == [(config(1), None), (config(2), 1.25)]
    with pytest.raises(SpaceError, match="records the parameters A, B, but the space has A, C"):
        MADE_UP.within(SearchSpace.of({"A": [1], "C": [1]}))
    with pytest.raises(SpaceError, match="no config of made up is in the space"):
        MADE_UP.within(SearchSpace.of({"A": [1], "B": [2]}))


def test_recordings_of_several_shapes_warm_alike() -> None:
    """A shape that takes a thousandth of the time is no reason to try what was slow there first."""
    small = Recording({config(1): RecordedResult(0.003), config(2): RecordedResult(0.001)})
    both = [*MADE_UP.within(SearchSpace.of({"A": [0, 1, 2], "B": [1]})), *small.within(MADE_UP.space)]
    assert [c for c, relative in both if relative == 1.0] == [config(0), config(2)]
    assert all(relative is None or relative >= 1.0 for _, relative in both)
