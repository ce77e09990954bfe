"""Several workloads judged as one."""

from __future__ import annotations

import pytest
from kernelwright.core import Config, Evaluation, JointProblem, Measurement, PythonKernel, Status, TorchProblem
from kernelwright.core.workload_rows import loses, merged

from ..conftest import SCALE_KERNEL, SCALE_PROBLEM
from ..fakes import evaluation

KERNEL = PythonKernel.parse(SCALE_KERNEL, "scale")


def timed(latency_ms: float, reference_ms: float = 8.0, block: int = 4) -> Evaluation:
    timed = evaluation(KERNEL, Config({"BLOCK": block}), latency_ms)
    times = {"measurement": (latency_ms,) * 5, "reference": (reference_ms,) * 7}
    return timed.model_copy(update={name: Measurement(samples_ms=samples) for name, samples in times.items()})


def test_times_are_geometric_means_and_each_workload_has_a_row() -> None:
    found = merged({"few": timed(1.0, 2.0), "many": timed(4.0, 8.0)})
    assert found.latency_ms == pytest.approx(2.0)
    assert found.speedup is not None and found.speedup.ratio == pytest.approx(2.0)
    assert {name: row.latency_ms for name, row in found.workloads.items()} == {"few": 1.0, "many": 4.0}
    assert Evaluation.model_validate_json(found.model_dump_json()) == found


def test_the_times_of_launches_are_of_one_workload() -> None:
    one = timed(1.0).model_copy(update={"launches_ms": {"first": 0.5}})
    assert merged({"few": one, "many": timed(4.0)}).launches_ms == {}


def test_one_workload_that_fails_fails_all() -> None:
    wrong = Evaluation(status=Status.WRONG_VALUE, kernel_digest=KERNEL.digest, message="off by 1")
    found = merged({"few": timed(1.0), "many": wrong})
    assert (found.status, found.message, found.measurement) == (Status.WRONG_VALUE, "at many: off by 1", None)
    assert found.workloads["few"].latency_ms == 1.0


def test_what_the_sanitizer_says_is_the_first_thing_that_is_not_clean() -> None:
    clean = timed(1.0).model_copy(update={"sanitizer": {"memcheck": "clean", "racecheck": "clean"}})
    late = clean.model_copy(update={"sanitizer": {"memcheck": "clean", "racecheck": "not finished: late"}})
    found = merged({"few": clean, "many": late, "none": timed(2.0)})
    assert found.sanitizer == {"memcheck": "clean", "racecheck": "at many: not finished: late"}
    assert merged({"few": late, "many": late}).sanitizer == late.sanitizer
    assert merged({"few": timed(1.0), "many": timed(2.0)}).sanitizer == {}


def test_no_workload_may_lose_more_than_two_percent() -> None:
    start = merged({"few": timed(1.0), "many": timed(4.0)})
    assert loses(merged({"few": timed(1.015, block=8), "many": timed(2.0, block=8)}), start) is None
    lost = loses(merged({"few": timed(1.05, block=8), "many": timed(2.0, block=8)}), start)
    assert lost is not None and lost.startswith("few is 5.0% slower")
    # The machine became slower meanwhile, as the reference shows.
    assert loses(merged({"few": timed(2.0, 16.0, 8), "many": timed(8.0, 16.0, 8)}), start) is None
    assert loses(start.model_copy(update={"workloads": {}}), start) is None


def test_a_problem_at_all_its_workloads() -> None:
    problem = JointProblem.of_all(TorchProblem(id="level1/1_999", name="999_Scale", source=SCALE_PROBLEM))
    assert isinstance(problem, JointProblem)
    assert problem.workload == "cpu | tiny"
    assert {name: dict(member.sizes) for name, member in problem.members.items()} == {
        "cpu": {"rows": 32}, "tiny": {"rows": 4, "columns": 64},
    }  # fmt: skip
    assert problem.sizes_key != problem.members["tiny"].sizes_key
    single = problem.at("cpu")
    assert single.sizes_key == problem.members["cpu"].sizes_key
