"""A Solution of several files from the check of its text to the comparison with the reference."""

from __future__ import annotations

import pytest
from kernelwright.core import Config, TorchProblem
from kernelwright.core.user_package import stands_alone
from kernelwright.corpus.flashinfer_trace.definition import Definition
from kernelwright.corpus.flashinfer_trace.schema import Solution
from kernelwright.corpus.flashinfer_trace.solution import kernel_of
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Sandbox, Settings

from ...corpus.flashinfer_trace.folders import definition, solution

PROBLEM = """
import torch

ROWS = 100


class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(ROWS)]
"""
SIZES = "BLOCK = 64\n"
KERNELS = """
import triton
import triton.language as tl


@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)
"""
MAIN = """
import torch
import triton

from . import sizes
from ops.kernels import double_kernel as launched


def run(x):
    from ops.sizes import BLOCK

    y = torch.empty_like(x)
    launched[(triton.cdiv(x.numel(), sizes.BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
    return y
"""


CLOCK = "import time\n\nSTART = time.perf_counter()\n"


@pytest.mark.parametrize(("more", "status"), [("", "ok"), (CLOCK, "rejected")])
def test_a_solution_of_several_files_is_judged_as_one_file_is(more: str, status: str) -> None:
    """A rule that is broken in any of the files counts; constants of all of them are parameters."""
    files = {"ops/main.py": MAIN, "ops/kernels.py": KERNELS, "ops/sizes.py": SIZES + more}
    written = Solution.model_validate(solution(files, destination_passing_style=False))
    kernel = kernel_of(written, Definition.model_validate(definition()))
    assert stands_alone(kernel.source) and dict(kernel.config) == {"BLOCK": 64}
    with LocalEvaluator("cpu", Settings(sandbox=Sandbox.NONE)) as evaluator:
        found = evaluator.evaluate(TorchProblem("double", "double", PROBLEM), kernel, [Config(), Config({"BLOCK": 32})])
        assert [(item.status, item.message) for item in found if item.status != status] == []
