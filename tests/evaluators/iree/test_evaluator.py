"""Modules that IREE compiles, evaluated."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Config, DeviceError, MlirProblem, OptionError, ProblemError, Status, extras
from kernelwright.evaluators.iree import target
from kernelwright.evaluators.iree.evaluator import IreeEvaluator
from kernelwright.evaluators.iree.module_runner import ModuleRunner
from kernelwright.evaluators.iree.process import ModuleFailedError, ModuleProcess
from kernelwright.evaluators.iree.processes import IreeProcesses
from kernelwright.evaluators.iree.verdicts import NO_NUMPY
from kernelwright.evaluators.settings import Limits, Sampling, Sandbox, SearchSettings, Settings
from kernelwright.evaluators.workers.channel import Message
from kernelwright.tuners.mlir.analysis import analyse

from .modules import ADDING, MATMUL, configs, kernel, matmul_problem, of_bf16, scheduled, started_at

QUICK = Sampling(0.05, seconds=0.05, min_samples=6, max_samples=50, chunk_s=0.005, heeds_load=False)
# Nothing is pruned: on a busy machine six samples may be far apart.
SETTINGS = Settings(sampling=QUICK, search=SearchSettings(compilers=2, window=2, prune_factor=1e3, sampling=QUICK))


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IreeEvaluator]:
    with IreeEvaluator("cpu", settings=SETTINGS, memory=tmp_path_factory.mktemp("iree")) as made:
        yield made


@pytest.fixture(scope="module")
def problem() -> MlirProblem:
    return matmul_problem()


def test_schedules_are_verified_and_timed_beside_the_default(evaluator: IreeEvaluator, problem: MlirProblem) -> None:
    asked = [configs(tile=16, vector=8), configs(tile=32, vector=4), configs(tile=0, vector=3)]
    found = list(evaluator.evaluate(problem, scheduled(), asked))
    assert [evaluation.config for evaluation in found] == [dict(config) for config in asked]
    right = found[0]
    assert right.status is Status.OK and right.speedup and right.cores_used
    assert right.correctness and right.correctness.deterministic and right.correctness.error_fp64 is not None
    assert right.correctness.error_fp64 < 1e-6
    assert found[1].reference and right.reference
    # Trials are comparable: the default module has one time beside all of them.
    assert found[1].reference.median_ms == pytest.approx(right.reference.median_ms)
    assert right.environment["iree-base-compiler"] and right.environment["chip"] == "host"


def test_finalists_are_checked_with_new_inputs_and_timed_together(
    evaluator: IreeEvaluator, problem: MlirProblem
) -> None:
    default, evaluation = evaluator.compare(problem, scheduled(), [Config(), configs(tile=16, vector=8)])
    assert default.config == {} and default.speedup and evaluation.speedup
    assert evaluation.correctness and evaluation.correctness.checks == 3
    assert default.reference == evaluation.reference


def test_a_wrong_module_is_found_and_not_timed(evaluator: IreeEvaluator, problem: MlirProblem) -> None:
    wrong, right = evaluator.evaluate(problem, started_at(), [configs(start=1), configs(start=0)])
    assert wrong.status is Status.WRONG_VALUE and wrong.measurement is None
    assert "1536 of 1536 elements differ from NumPy's" in wrong.message
    assert right.ok


@pytest.mark.parametrize("result", ["f32", "bf16"])
def test_products_of_bf16_are_verified_and_timed(evaluator: IreeEvaluator, result: str) -> None:
    source = of_bf16(result)
    problem = analyse(source, "bf16")
    wrong, right = evaluator.evaluate(problem, started_at(source), [configs(start=1), configs(start=0)])
    assert wrong.status is Status.WRONG_VALUE and "differ from NumPy's" in wrong.message
    assert right.ok and right.correctness and right.correctness.error_fp64 == 0
    (found,) = evaluator.evaluate(problem, scheduled(source), [configs(tile=16, vector=8)])
    assert found.ok and found.speedup


def test_a_product_that_adds_to_an_argument_starts_from_the_same_values_each_time(evaluator: IreeEvaluator) -> None:
    source = ADDING
    (found,) = evaluator.evaluate(analyse(source, "adding"), scheduled(source), [configs(tile=16, vector=8)])
    assert found.ok and found.correctness and found.correctness.deterministic
    (final,) = evaluator.compare(analyse(source, "adding"), scheduled(source), [configs(tile=16, vector=8)])
    assert final.ok and final.correctness and final.correctness.checks == 3


def test_equal_code_is_measured_once(evaluator: IreeEvaluator, problem: MlirProblem) -> None:
    (first,) = evaluator.evaluate(problem, scheduled(), [configs(tile=16, vector=8)])
    (again,) = evaluator.evaluate(problem, scheduled(), [configs(tile=16, vector=8)], [first])
    assert again.duplicate_of == first.config and again.latency_ms == first.latency_ms


def test_a_failing_call_is_a_result_and_the_next_module_runs(evaluator: IreeEvaluator, problem: MlirProblem) -> None:
    failing = MATMUL.replace("%zero =", '%no = arith.constant 0 : i1\n  cf.assert %no, "stop"\n  %zero =', 1)
    stopping = replace(started_at(failing), plain=MATMUL, source=MATMUL)
    (found,) = evaluator.evaluate(problem, stopping, [configs(start=0)])
    assert found.status is Status.RUNTIME_ERROR and "stop" in found.message
    assert all(evaluation.ok for evaluation in evaluator.evaluate(problem, scheduled(), [configs(tile=32, vector=8)]))


def test_a_finalist_that_fails_takes_none_with_it(evaluator: IreeEvaluator, problem: MlirProblem) -> None:
    before, after = MATMUL.split("%zero =")
    slot = '%good = arith.constant @{good} : i1\n  cf.assert %good, "stop"\n  '
    asserting = kernel(MATMUL, before, slot, "%zero =" + after, good=(0, 1))
    stops, runs = evaluator.compare(problem, asserting, [configs(good=0), configs(good=1)])
    assert stops.status is Status.RUNTIME_ERROR and "stop" in stops.message and stops.measurement is None
    assert runs.ok and runs.speedup


def test_a_crash_costs_one_process(tmp_path: Path, problem: MlirProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = ModuleProcess.ask

    def killed(process: ModuleProcess, op: str, **request: Any) -> Message:
        os.kill(process.pid, signal.SIGSEGV)  # now, since one that is dead before is started anew, and nothing fails
        return ask(process, op, **request)

    processes = IreeProcesses("cpu", Limits(), Sandbox.AUTO)
    runner = ModuleRunner(problem, target.IreeTarget("cpu"), processes, {"folder": tmp_path}, call_s=10.0, seed=1)
    monkeypatch.setattr(ModuleProcess, "ask", killed)
    with pytest.raises(ModuleFailedError, match="killed by SIGSEGV") as caught:
        runner.check("default")
    assert caught.value.status is Status.CRASHED
    monkeypatch.undo()
    assert runner.check("default")["status"] == Status.OK
    runner.close()
    processes.close()


def test_without_numpy_the_default_module_is_the_only_judge(evaluator: IreeEvaluator) -> None:
    source = MATMUL.replace("return %sum", "%two = arith.addf %sum, %sum : tensor<32x48xf32>\n  return %two")
    unknown = analyse(source, "unknown")
    assert unknown.steps is None
    (found,) = evaluator.evaluate(unknown, scheduled(source), [configs(tile=16, vector=8)])
    assert found.ok and found.message == NO_NUMPY
    assert found.correctness and found.correctness.error_fp64 is None


def test_a_problem_that_numpy_computes_otherwise_is_refused(evaluator: IreeEvaluator, problem: MlirProblem) -> None:
    assert problem.steps
    other = replace(problem, returns=(2,))  # the tensor of zeros
    with pytest.raises(ProblemError, match="NumPy and IREE's default module disagree about matmul"):
        list(evaluator.evaluate(other, scheduled(), [configs(tile=16, vector=8)]))


def test_no_ceilings_are_measured(evaluator: IreeEvaluator, problem: MlirProblem) -> None:
    with pytest.raises(DeviceError, match="cannot be profiled"):
        evaluator.profile(problem)


def test_without_iree_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda module: module == "iree")
    for need, lacking in ((target.find_compiler, "iree.compiler"), (target.require_runtime, "iree.runtime")):
        with pytest.raises(OptionError, match=rf"needs {lacking}, which .* pip install 'kernelwright\[iree\]'"):
            need()


def test_a_worker_that_is_to_see_one_gpu_starts() -> None:
    pytest.importorskip("iree.runtime", reason="IREE is not installed")
    processes = IreeProcesses("cpu", Limits(), Sandbox.NONE)
    try:
        worker = processes.runner("1", driver="local-task")
        assert worker.call(60, op="drop", name="none") == {"ok": True}
    finally:
        processes.close()


@pytest.mark.gpu
def test_a_gpu_runs_what_was_compiled_for_it(tmp_path: Path) -> None:
    pytest.importorskip("iree.compiler", reason="IREE is not installed")
    with IreeEvaluator("cuda", settings=SETTINGS, memory=tmp_path) as evaluator:
        (default,) = evaluator.compare(matmul_problem(), scheduled(), [Config()])
    assert default.ok and default.speedup and default.measurement
    assert "each dispatch 32 times" in default.measurement.method
