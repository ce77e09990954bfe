"""Evaluations as Traces."""

from __future__ import annotations

import json

import pytest
from kernelwright.core import Config, Correctness, Evaluation, Rejection, Status
from kernelwright.corpus.flashinfer_trace.schema import Workload
from kernelwright.corpus.flashinfer_trace.sol_execbench import ExprAxis
from kernelwright.corpus.flashinfer_trace.trace import STATUSES, invalid_reference, trace_of

from ...fakes import evaluation, kernel

WORKLOAD = Workload.model_validate({"axes": {}, "inputs": {}, "uuid": "u", "tolerance": {"max_atol": 0.5}})

UNTOLD = (Status.OK, Status.UNPROVEN, Status.NOT_MEASURED)


def test_a_timed_kernel_passed_with_the_errors_on_the_workloads_own_inputs() -> None:
    timed = evaluation(kernel(2.0), Config(), 2.0)
    compared = Correctness(
        seeds=(1,), max_abs_error=1e18, max_rel_error=1e-3, own_errors=(1e-6, 1e-7), tolerance=1e-4, passed=True
    )
    measured = {"device": "NVIDIA H200", "torch": "2.11", "uuid": "GPU-1"}
    timed = timed.model_copy(update={"correctness": compared, "environment": measured})
    trace = trace_of("d", WORKLOAD, "s", timed, "2026-01-01T00:00:00")
    assert trace is not None and trace.evaluation is not None
    written = json.loads(trace.to_json())
    assert written["workload"]["tolerance"]["max_atol"] == 0.5
    found = written["evaluation"]
    assert found["environment"] == {"hardware": "NVIDIA H200", "libs": {"torch": "2.11"}}
    assert (found["correctness"]["max_absolute_error"], found["correctness"]["max_relative_error"]) == (1e-6, 1e-7)
    assert found["performance"] == {"latency_ms": 2.0, "reference_latency_ms": 10.0, "speedup_factor": 5.0}


def test_a_kernel_that_was_not_timed_has_not_passed() -> None:
    checked = evaluation(kernel(2.0), Config(), 2.0).model_copy(update={"measurement": None, "reference": None})
    assert trace_of("d", WORKLOAD, "s", checked, "now") is None


@pytest.mark.parametrize("status", [status for status in Status if status not in UNTOLD])
def test_every_failure_has_a_status_of_theirs(status: Status) -> None:
    trace = trace_of("d", WORKLOAD, "s", evaluation(kernel("x"), Config(), status.value), "now")
    assert trace is not None and trace.evaluation is not None
    assert trace.evaluation.status == STATUSES[status] != "PASSED"
    assert trace.evaluation.log == "as told"


def test_what_is_no_verdict_is_no_trace() -> None:
    assert trace_of("d", WORKLOAD, "s", evaluation(kernel("x"), Config(), "not_measured"), "now") is None


def test_sol_execbench_has_statuses_of_its_own() -> None:
    rule = Rejection(rule="timer", where="line 1", why="it counts.")
    refused = Evaluation(status=Status.REJECTED, kernel_digest="k", message="no", rejection=rule)
    trace = trace_of("d", WORKLOAD, "s", refused, "now", sol=True)
    assert trace is not None and trace.evaluation is not None and trace.evaluation.status == "REWARD_HACK"
    failed = invalid_reference("d", WORKLOAD, "s", "why", "H200", "now").evaluation
    assert failed is not None and (failed.status, failed.log) == ("INVALID_REFERENCE", "why")


@pytest.mark.parametrize(
    ("text", "extent"), [("n * 2 + 1", 9), ("8 / n", 2), ("n ** 2 // 3", 5), ("-n + 5 % 3 + 4", 2)]
)
def test_an_expression_axis_is_a_whole_number(text: str, extent: int) -> None:
    assert ExprAxis(type="expr", expression=text).extent({"n": 4}) == extent


@pytest.mark.parametrize("text", ["n / 3", "3 - n", "1 // (n - 4)", "9 ** 999"])
def test_an_expression_without_an_extent_says_so(text: str) -> None:
    with pytest.raises(ValueError, match=text.split()[0]):
        ExprAxis(type="expr", expression=text).extent({"n": 4})
