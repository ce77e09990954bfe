"""The shipped problems and kernels: complete, right, and compiled for the devices that are not here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, Status, TorchProblem, backends
from kernelwright.core.space_inference import declared_space
from kernelwright.corpus import find_kernel, find_problem, list_kernels, list_problems
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Sampling

from ..agent.triton_rule_cases import SMALL
from ..conftest import FAST, OnGpu

PROBLEMS = [problem.id for problem in list_problems()]
NEEDED = ["1_1", "1_19", "1_23", "1_36", "1_38", "1_40", "1_47", "1_94", "2_10", "2_12", "2_61", "2_95"]


def test_the_promised_problems_are_there() -> None:
    assert [f"level{name[0]}/{name}" for name in NEEDED] == PROBLEMS


@pytest.mark.parametrize("backend", backends())
def test_each_backend_has_enough_kernels(backend: str) -> None:
    solved = [file.problem for file in list_kernels(backend)]
    assert set(solved) <= set(PROBLEMS)
    assert len(solved) >= 8
    if backend == "tilelang_cpu":
        assert solved == PROBLEMS


@pytest.mark.parametrize("backend", backends())
def test_declared_spaces_hold_the_shipped_constants(backend: str) -> None:
    for file in list_kernels(backend):
        kernel = file.read()
        space = declared_space(kernel)
        if space is not None:
            assert space.default == Config({name: kernel.config[name] for name in space.names}), file.path


@pytest.fixture(scope="module")
def patient() -> Iterator[LocalEvaluator]:
    """Triton's interpreter takes seconds for some."""
    with LocalEvaluator(settings=replace(FAST, limits=replace(FAST.limits, call_s=60))) as shared:
        yield shared


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("backend", ["tilelang_cpu", "triton"])
def test_kernels_are_correct_on_the_cpu(patient: LocalEvaluator, backend: str, problem: str) -> None:
    kernel = find_kernel(problem, backend).read()
    tiny = TorchProblem.of(find_problem(problem).read().at("tiny"))
    small = SMALL.get(problem.partition("/")[2], {}) if backend == "triton" else {}  # each program takes milliseconds
    tiny = replace(tiny, sizes={**tiny.sizes, **small})
    evaluation = next(iter(patient.evaluate(tiny, kernel, [Config()])))
    assert evaluation.status is Status.OK, evaluation.message + evaluation.log


@pytest.mark.parametrize("backend", ["triton", "tilelang"])
def test_gpu_kernels_compile_for_sm_90(backend: str) -> None:
    """In a process of its own: the interpreter's setting is read when Triton is imported."""
    script = Path(__file__).with_name(f"cross_compile_{backend}.py")
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    compiled = json.loads(run.stdout)
    assert {problem for problem, kernels in compiled.items() if kernels} == set(PROBLEMS)
    for kernels in compiled.values():
        assert all(0 <= shared <= 227 * 1024 for shared in kernels.values())


@pytest.fixture(scope="module")
def gpu(on_gpu: OnGpu) -> Iterator[LocalEvaluator]:
    # What is asked is whether they are right; others wait while they are timed.
    with on_gpu(sampling=Sampling(seconds=0.1)) as evaluator:
        yield evaluator


@pytest.mark.gpu
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("backend", ["triton", "tilelang"])
def test_kernels_are_correct_on_a_gpu(gpu: LocalEvaluator, backend: str, problem: str) -> None:
    kernel = find_kernel(problem, backend).read()
    evaluation = next(iter(gpu.evaluate(find_problem(problem).read().at("default"), kernel, [Config()])))
    assert evaluation.status is Status.OK, evaluation.message
    assert evaluation.second_workload is None or evaluation.second_workload.status is Status.OK
    assert evaluation.replay is not None and evaluation.replay.replayed, evaluation.replay
