"""Problems without a kernel, and folders of kernels, in a listing."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import kernelwright
import pytest
from kernelwright.commands.list_slow import Result
from kernelwright.core import Config, Evaluation, Kernel, KernelError, Measurement, Problem, ProblemError, Profile
from kernelwright.corpus import list_kernel_files
from kernelwright.evaluators.pipeline.interleaved_timer import InterleavedTimes
from kernelwright.evaluators.timing.sampling import Timing
from kernelwright.runtime.runtime import Runtime

from ..conftest import SCALE_KERNEL, SCALE_PROBLEM
from ..corpus.flashinfer_trace.folders import BAG, HERE
from ..fakes import PROFILE, evaluation


class Evaluator:
    """Knows what each reference takes; one of them fails."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.contention: float | None = None

    def evaluate(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        self.asked.append(problem.id)
        return [evaluation(kernel, configs[0], 20.0)]

    def profile(self, problem: Problem) -> Profile:
        self.asked.append(problem.id)
        return PROFILE  # its floor is 0.1 ms

    def time_reference(self, problem: Problem) -> InterleavedTimes:
        if problem.id == "level1/1_202":
            raise ProblemError("it returns something else at a second call")
        eager, compiled = {"level1/1_201": (3.0, 2.0)}.get(problem.id, (1.0, None))
        baselines = {} if compiled is None else {"compile": Measurement(samples_ms=(compiled,))}
        return InterleavedTimes((), Timing(Measurement(samples_ms=(eager,)), 1.0), self.contention, baselines)

    def environment(self, problem: Problem) -> dict[str, str]:
        return {"device": "test"}


@pytest.fixture
def evaluator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluator:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    fake = Evaluator()
    monkeypatch.setattr(Runtime, "local_evaluator", lambda *_: lambda: nullcontext(fake))
    return fake


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Three problems without a kernel, and one that is not Python."""
    level = tmp_path / "bench" / "level1"
    level.mkdir(parents=True)
    for number in (201, 202, 203):
        (level / f"{number}_Scale.py").write_text(SCALE_PROBLEM)
    (level / "204_Broken.py").write_text("broken(")
    return level.parent


def listed(**options: Any) -> Result:
    return kernelwright.list_slow(device="cpu", **options)


def test_what_has_most_to_gain_comes_first_and_a_failure_costs_its_row(dataset: Path, evaluator: Evaluator) -> None:
    found = listed(dataset=dataset)
    rows = [(row.problem, row.headroom, row.eager_ms, row.compile_ms, row.floor_ms) for row in found.problems]
    assert [row[0] for row in rows] == ["level1/1_201.py", "level1/1_203.py"]
    assert rows[0][1:] == pytest.approx((20.0, 3.0, 2.0, 0.1))
    assert rows[1][1:3] == pytest.approx((10.0, 1.0)) and rows[1][3] is None
    assert [line.partition(":")[0] for line in found.failed] == ["level1/1_202", "level1/1_204"]
    assert (found.measured, found.slow) == (0, ())


def test_nothing_is_measured_twice_and_resume_keeps_failures_too(dataset: Path, evaluator: Evaluator) -> None:
    listed(dataset=dataset)
    assert evaluator.asked == ["level1/1_201", "level1/1_202", "level1/1_203"]
    evaluator.asked.clear()
    again = listed(dataset=dataset)
    assert evaluator.asked == ["level1/1_202"]  # it may have been repaired
    evaluator.asked.clear()
    assert listed(dataset=dataset, resume=True) == again
    assert evaluator.asked == []


def test_disturbed_times_are_measured_again_on_request(dataset: Path, evaluator: Evaluator) -> None:
    evaluator.contention = 1.5
    (row,) = listed(dataset=dataset, problem="1_201").problems
    assert row.contention == 1.5
    evaluator.contention = None
    assert listed(dataset=dataset, problem="1_201").problems == (row,)
    (row,) = listed(dataset=dataset, problem="1_201", again=True).problems
    assert row.contention is None


def test_a_folder_lists_its_kernels_and_earlier_results(dataset: Path, evaluator: Evaluator, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    names = ("1_201.py", "deep/er/1_203_optimized_1.200x_tilelang_cpu.py")
    for name in (*names, ".hidden/1_201.py"):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text(SCALE_KERNEL)
    (mine / "helper.py").write_text("x = 1")
    (mine / "unknown.py").write_text(SCALE_KERNEL.replace("BLOCK = 8", "BLOCK = 4"))
    assert [str(path.relative_to(mine)) for path in list_kernel_files(mine)] == [*names, "unknown.py"]
    found = listed(dataset=dataset, folder=mine, workload="tiny")
    assert [row.kernel for row in found.slow] == [str(mine / name) for name in names]
    assert evaluator.asked == ["level1/1_201", "level1/1_203"]
    assert found.problems == ()
    assert [line.partition(":")[0] for line in found.skipped] == [str(mine / "unknown.py")]
    with pytest.raises(KernelError, match="there is no folder"):
        listed(folder=mine / "none")


def test_solutions_are_kernels_and_definitions_problems(evaluator: Evaluator) -> None:
    found = listed(dataset=HERE / "dataset")
    assert [row.kernel for row in found.slow] == ["gemm_tilelang_cpu", "rmsnorm_tilelang_cpu"]
    assert [row.problem for row in found.problems] == [BAG]


def test_both_kinds_of_rows_go_into_one_pipe(dataset: Path, evaluator: Evaluator) -> None:
    found = listed(dataset=HERE / "dataset")
    plain = found.render("plain").splitlines()
    assert [line.split()[1:] for line in plain][1:] == [["SLOW", "rmsnorm_tilelang_cpu"], ["NO_KERNEL", BAG]]
    table = list(csv.DictReader(io.StringIO(found.render("csv"))))
    assert (table[0]["kernel"], table[0]["headroom"]) == ("gemm_tilelang_cpu", "")
    assert (table[2]["problem"], table[2]["kernel"], float(table[2]["headroom"])) == (BAG, "", pytest.approx(10.0))


def test_recorded_regions_are_ranked_by_share_times_headroom(
    tmp_path: Path, evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, calls in (("region_seldom", 1), ("region_often", 3)):
        (tmp_path / "recorded").mkdir(exist_ok=True)
        (tmp_path / "recorded" / f"{name}.py").write_text(f"{SCALE_PROBLEM}\nCALLS = {calls}\n")
    found = kernelwright.list_slow(device="cpu", recorded=Path("recorded"))
    assert [(row.problem, row.calls, row.share) for row in found.problems] == [
        ("recorded/region_often.py", 3, 0.75),
        ("recorded/region_seldom.py", 1, 0.25),
    ]
    assert found.exit_code == 0 and not found.measured
    assert found.render("plain").splitlines()[0] == "10.000 75.0% recorded/region_often.py"
    with pytest.raises(ProblemError, match="empty has no recorded regions; run the model with KERNELWRIGHT_RECORD"):
        kernelwright.list_slow(device="cpu", recorded=Path("empty"))
