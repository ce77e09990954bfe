"""compute-sanitizer on a GPU: kernels whose results are right and accesses are not, and kernels without a fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernelwright.core import Config, Evaluation, PythonKernel, Status, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Sampling

from ..conftest import OnGpu

PROBLEM = """
import torch
from torch import nn

n = {elements}


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(n)]


def get_init_inputs():
    return []
"""
ODD, EVEN = 100_001, 1 << 18

TRITON = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu(x, y, scratch, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < N)
    tl.store(y + at, tl.maximum(value, 0.0), mask=at < N)


class ModelNew(nn.Module):
    def forward(self, x):
        y, scratch = torch.empty_like(x), torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), 1024),)](x, y, scratch, x.numel(), BLOCK=1024)
        return y
"""
# What is read behind the end is not written anywhere, so neither a result nor a wall shows it.
BEHIND = TRITON.replace("tl.load(x + at, mask=at < N)", "tl.load(x + at)")
UNWRITTEN = TRITON.replace(
    "tl.store(y + at, tl.maximum(value, 0.0), mask=at < N)",
    "left = tl.load(scratch + at, mask=at < N)\n"
    "    tl.store(y + at, tl.maximum(value, 0.0) + tl.where(left == 1.5e-30, 1.0, 0.0), mask=at < N)",
)

TILELANG = """
import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn


@functools.lru_cache(maxsize=None)
def build(N):
    @T.prim_func
    def relu(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 256), threads=256) as b:
            s = T.alloc_shared((256,), "float32")
            for i in T.Parallel(256):
                s[i] = X[b * 256 + i]
            for i in T.Parallel(256):
                Y[b * 256 + i] = T.max(s[255 - (255 - i)], 0.0)

    return tilelang.compile(relu, out_idx=[-1], target="cuda")


class ModelNew(nn.Module):
    def forward(self, x):
        return build(x.numel())(x)
"""
# TileLang puts a barrier between two loops; within one each thread reads what another one writes.
RACE = TILELANG.replace(
    "Y[b * 256 + i] = T.max(s[255 - (255 - i)], 0.0)",
    "s[i] = s[(i + 32) % 256] * 0.5\n            for i in T.Parallel(256):\n"
    "                Y[b * 256 + i] = T.max(X[b * 256 + i], 0.0) + T.if_then_else(s[i] == 1.5e-30, 1.0, 0.0)",
)


@pytest.fixture(scope="module")
def evaluator(on_gpu: OnGpu) -> Iterator[LocalEvaluator]:
    with on_gpu(sanitize=True, sampling=Sampling(seconds=0.1)) as shared:
        yield shared


def sanitized(evaluator: LocalEvaluator, source: str, elements: int) -> Evaluation:
    """The evaluation of a kernel; skips where there is no tool for this device."""
    problem = TorchProblem(id="level1/1_998", name="998_Relu", source=PROBLEM.format(elements=elements))
    (found,) = evaluator.evaluate(problem, PythonKernel.parse(source, "relu"), [Config()])
    if any(said.startswith("not run") for said in found.sanitizer.values()):
        pytest.skip(next(iter(found.sanitizer.values())))
    return found


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("source", "elements", "rule", "tool"),
    [
        pytest.param(BEHIND, ODD, "out-of-bounds", "memcheck", id="reads behind the end"),
        pytest.param(UNWRITTEN, ODD, "uninitialized-read", "initcheck", id="reads what nobody wrote"),
        pytest.param(RACE, EVEN, "shared-memory-race", "racecheck", id="races in shared memory"),
    ],
)
def test_a_fault_that_no_result_shows_is_found(
    evaluator: LocalEvaluator, source: str, elements: int, rule: str, tool: str
) -> None:
    assert source not in (TRITON, TILELANG)
    found = sanitized(evaluator, source, elements)
    assert found.status is Status.REJECTED and found.rejection is not None, (found.message, found.sanitizer)
    assert found.rejection.rule == rule and f"compute-sanitizer's {tool}" in found.rejection.why


@pytest.mark.gpu
@pytest.mark.parametrize(("source", "elements"), [(TRITON, ODD), (TILELANG, EVEN)], ids=["triton", "tilelang"])
def test_a_kernel_without_a_fault_is_clean(evaluator: LocalEvaluator, source: str, elements: int) -> None:
    found = sanitized(evaluator, source, elements)
    assert found.status is Status.OK, found.message
    assert found.sanitizer == {"memcheck": "clean", "initcheck": "clean", "racecheck": "clean"}
