"""Problems whose inputs, weights and outputs have eight bits."""

from __future__ import annotations

import pytest
import torch
from kernelwright.core import Config, Kernel, PythonKernel, Status, TorchProblem
from kernelwright.evaluators.correctness.inputs import Buffers, Feed
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.workers.modules import ProblemModule

PROBLEM = """
import torch
from torch import nn

rows = 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64).to(torch.{dtype}), requires_grad=False)

    def forward(self, x, y):
        return {result}


def get_inputs():
    return [torch.randn(rows, 64).to(torch.{dtype}), torch.randn(64, 16).to(torch.{dtype})]


def get_init_inputs():
    return []
"""
PRODUCT = "(x.float() * self.weight.float()) @ y.float()"
# Twice the input: weights are perturbed by less than eight bits tell apart, so that the input itself would pass.
RESULTS = [PRODUCT, "(2 * x.float() * self.weight.float()).to(x.dtype)"]
DTYPES = ["float8_e4m3fn", "float8_e5m2"]


def problem(dtype: str, result: str) -> TorchProblem:
    return TorchProblem(id="level1/1_996", name="996_Narrow", source=PROBLEM.format(dtype=dtype, result=result))


def kernel(dtype: str, result: str) -> Kernel:
    source = PROBLEM.format(dtype=dtype, result=result).replace("class Model(", "class ModelNew(")
    return PythonKernel.parse("import tilelang.cpu.language as T\n" + source)


@pytest.mark.parametrize("result", RESULTS, ids=["fp32 result", "eight-bit result"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_correct_kernel_passes(evaluator: LocalEvaluator, dtype: str, result: str) -> None:
    (found,) = evaluator.evaluate(problem(dtype, result), kernel(dtype, result), [Config()])
    assert found.status is Status.OK, found.message
    assert found.measurement is not None
    assert found.correctness is not None and not found.correctness.trivial_outputs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wrong", ["x.float() @ y.float()", f"{PRODUCT} * 1.01", "torch.zeros(len(x), 16)"])
def test_a_wrong_kernel_is_refused(evaluator: LocalEvaluator, dtype: str, wrong: str) -> None:
    (found,) = evaluator.evaluate(problem(dtype, PRODUCT), kernel(dtype, wrong), [Config()])
    assert found.status is Status.WRONG_VALUE, found.message


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_wrong_result_of_eight_bits_is_refused(evaluator: LocalEvaluator, dtype: str) -> None:
    wrong = RESULTS[1].replace("x.float()", "1.4 * x.float()")
    (found,) = evaluator.evaluate(problem(dtype, RESULTS[1]), kernel(dtype, wrong), [Config()])
    assert found.status is Status.WRONG_VALUE, found.message


@pytest.mark.parametrize("dtype", DTYPES)
def test_timed_inputs_are_scaled_and_finite(tmp_path, dtype: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM.format(dtype=dtype, result=PRODUCT))
    module = ProblemModule(path, {}, "cpu")
    feed = Feed(module)
    feed.restart(3)
    x = feed.next()[1][0]
    assert x.dtype is getattr(torch, dtype)
    assert torch.equal(x.float(), feed.at(3, 1)[0].float())
    assert not torch.equal(x.float(), module.inputs(3)[0].float())
    largest = torch.full((4, 4), torch.finfo(x.dtype).max).to(x.dtype)
    (held,) = Buffers().scaled([largest], torch.full((8,), 1.25))
    assert bool(torch.isfinite(held.float()).all())
