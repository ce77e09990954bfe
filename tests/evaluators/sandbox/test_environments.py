"""What the processes of an evaluation see of planted secrets: the candidate, a compiler and the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from kernelwright.core import Config, ProblemError, PythonKernel, TorchProblem
from kernelwright.evaluators.pipeline.processes import Processes

from ...conftest import FAST, SCALE_KERNEL, Unguarded, torch_kernel
from ...core.test_environment import PLANTED

SPY = """
import os
with open("/proc/self/environ") as started:
    kept = started.read()
raise RuntimeError(f"{'PATH' in os.environ} {'PATH=' in kept} {'planted' in str(dict(os.environ)) + kept}")
"""
NOTHING = "RuntimeError: True True False"


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Unguarded]:
    """Its processes start where the secrets are planted, and without a warm server, which would start elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PLANTED.items():
            patch.setenv(name, value)
        patch.delenv("KERNELWRIGHT_WARM_SERVER")
        evaluator = Unguarded(settings=FAST)
        evaluator.processes.start()
    with evaluator:
        yield evaluator


def candidate(evaluator: Unguarded, problem: TorchProblem) -> str:
    (found,) = evaluator.evaluate(problem, PythonKernel.parse(torch_kernel("pass").source + SPY), [Config()])
    return found.message


def compiler(evaluator: Unguarded, problem: TorchProblem) -> str:
    processes: Processes = evaluator.processes
    with processes.compilers(problem, processes.cache(PythonKernel.parse(SCALE_KERNEL)), 1) as pool:
        return pool.submit(SPY).result(timeout=60).message


def reference(evaluator: Unguarded, problem: TorchProblem) -> str:
    with pytest.raises(ProblemError) as caught:
        evaluator.processes.reference_client(replace(problem, source=problem.source + SPY)).call("properties")
    return re.sub(".*(?=RuntimeError)", "", str(caught.value))


@pytest.mark.parametrize("process", [candidate, compiler, reference])
def test_no_process_has_a_secret(
    evaluator: Unguarded, scale_problem: TorchProblem, process: Callable[[Unguarded, TorchProblem], str]
) -> None:
    assert process(evaluator, scale_problem).startswith(NOTHING)
