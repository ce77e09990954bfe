from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernelwright.core import Correctness, Evaluation, EvaluationSummary, Measurement, Origin, Speedup, Status
from pydantic import ValidationError

samples = st.lists(st.floats(1e-3, 1e4), min_size=1, max_size=60)
measurements = samples.map(lambda values: Measurement(samples_ms=tuple(values)))
statuses = st.sampled_from([status for status in Status if status not in (Status.OK, Status.UNPROVEN)])


def correctness(passed: bool = True) -> Correctness:
    return Correctness(seeds=(1, 2), max_abs_error=1e-6, max_rel_error=1e-6, tolerance=1e-4, passed=passed)


@pytest.mark.parametrize(
    ("own", "torchs", "said"),
    [
        (2.6e-4, 1.5e-7, "the error against fp64 is 2.6e-04 of the result (root mean square), the reference's 1.5e-07"),
        (4e-6, 1.4e-7, None),  # three bf16 products
        (3e-4, 2.6e-4, None),
        (1e-9, 0.0, None),  # a reference that is exact says nothing of precisions
        (None, None, None),
    ],
)
def test_a_lower_precision_than_the_references_is_said(
    own: float | None, torchs: float | None, said: str | None
) -> None:
    remark = correctness().model_copy(update={"error_fp64": own, "torch_error_fp64": torchs}).less_exact
    assert remark is None if said is None else said in (remark or "")


@given(measurements)
def test_a_measurement_lies_within_its_samples(measurement: Measurement) -> None:
    low, high = measurement.interval_ms
    smallest, largest = min(measurement.samples_ms), max(measurement.samples_ms)
    assert smallest <= low <= high <= largest
    assert low <= measurement.median_ms <= high
    assert measurement.precision >= 0


@given(measurements, measurements)
def test_a_speedup_lies_within_its_interval(reference: Measurement, candidate: Measurement) -> None:
    speedup = Speedup.between(reference, candidate)
    assert speedup.low <= speedup.ratio <= speedup.high


@given(measurements, measurements, st.dictionaries(st.sampled_from(["default", "compile"]), measurements))
def test_every_baseline_has_a_speedup_of_its_own(
    reference: Measurement, candidate: Measurement, baselines: dict[str, Measurement]
) -> None:
    common: dict[str, Any] = {"status": Status.OK, "kernel_digest": "d", "correctness": correctness()}
    timed = Evaluation(**common, measurement=candidate, reference=reference, baselines=baselines)
    metrics = EvaluationSummary.model_validate(json.loads(json.dumps(timed.summary().to_json())))
    assert timed.speedup_against("strict") == timed.speedup
    assert (timed.speedup_default is None) == ("default" not in baselines)
    for name in ("strict", "default", "compile", "max-autotune"):
        over, low_high = timed.speedup_against(name), metrics.interval_against(name)
        assert metrics.speedup_against(name) == (over.ratio if over else None)
        assert low_high == ((over.low, over.high) if over else None)
        assert over is None or over.low <= over.ratio <= over.high
    evaluation = Evaluation(**common, measurement=candidate, reference=reference, default_is_reference=True)
    assert (
        evaluation.speedup_default
        == evaluation.speedup
        == evaluation.speedup_against("strict")
        == evaluation.speedup_against("default")
    )
    policy = evaluation.model_copy(update={"precision": "default"})
    assert policy.speedup_against("default") == policy.speedup == policy.speedup_default
    assert policy.speedup_against("strict") is None and policy.metrics().speedup_against("strict") is None


@pytest.mark.parametrize("bad", [(), (-1.0,), (0.0,), (float("nan"),), (float("inf"),)])
def test_impossible_samples_are_refused(bad: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError):
        Measurement(samples_ms=bad)


@given(statuses, measurements)
def test_no_speed_without_correct_results(status: Status, measurement: Measurement) -> None:
    with pytest.raises(ValidationError, match="carries no timing"):
        Evaluation(status=status, kernel_digest="d", message="wrong", measurement=measurement)


@given(measurements)
def test_no_ok_without_a_comparison_that_passed(measurement: Measurement) -> None:
    for compared in (None, correctness(passed=False)):
        with pytest.raises(ValidationError, match="comparison that passed"):
            Evaluation(status=Status.OK, kernel_digest="d", correctness=compared, measurement=measurement)


def test_a_failure_says_what_went_wrong() -> None:
    with pytest.raises(ValidationError, match="needs a message"):
        Evaluation(status=Status.TIMEOUT, kernel_digest="d")


def test_speedup_needs_both_timings() -> None:
    measured = Measurement(samples_ms=(2.0,))
    checked = Evaluation(status=Status.OK, kernel_digest="d", correctness=correctness())
    assert checked.speedup is None
    assert checked.latency_ms is None
    timed = checked.model_copy(update={"measurement": measured, "reference": Measurement(samples_ms=(4.0,))})
    assert timed.speedup is not None
    assert timed.speedup.ratio == 2.0


def test_what_others_measured_is_what_a_tuner_is_told() -> None:
    timed = Evaluation.recorded({"A": 1}, 2.0)
    assert (timed.ok, timed.latency_ms, timed.config, timed.origin) == (True, 2.0, {"A": 1}, Origin.RECORDED)
    failed = Evaluation.recorded({"A": 1}, None, message="out of registers")
    assert (failed.status, failed.message, failed.latency_ms) == (Status.RUNTIME_ERROR, "out of registers", None)
    with pytest.raises(ValueError, match="only correct results have a speed"):
        Evaluation.recorded({"A": 1}, 2.0, status=Status.TIMEOUT, message="late")


def test_json_round_trip() -> None:
    measured = Measurement(samples_ms=(2.0, 2.5), method="wall clock", warmup=3)
    evaluation = Evaluation(
        status=Status.OK,
        kernel_digest="d",
        config={"A": 1, "F": "-O3"},
        correctness=correctness(),
        measurement=measured,
    )
    assert Evaluation.model_validate_json(evaluation.model_dump_json()) == evaluation


def test_a_record_that_names_no_origin_was_measured() -> None:
    """Journals written before know no other evaluations."""
    measured = Evaluation(status=Status.TIMEOUT, kernel_digest="d", message="too slow")
    record = measured.model_dump(mode="json")
    assert record.pop("origin") == "measured"
    assert Evaluation.model_validate(record) == measured
    simulated = measured.model_copy(update={"origin": Origin.SIMULATED})
    assert Evaluation.model_validate_json(simulated.model_dump_json()).origin is Origin.SIMULATED
