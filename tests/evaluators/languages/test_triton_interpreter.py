"""Triton's interpreter, as workers on a CPU use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.core import Config, PythonKernel, Status, TorchProblem
from kernelwright.evaluators.languages.triton_interpreter.calls import _patching_once
from kernelwright.evaluators.local import LocalEvaluator

PROBLEM = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return x @ y


def get_inputs():
    return [torch.randn(32, 64).to(torch.{dtype}), torch.randn(64, 16).to(torch.{dtype})]


def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def product(x, y, z, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STEP: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, STEP)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, STEP):
        left = tl.load(x + m * K + start + k[None, :])
        right = tl.load(y + (start + k[:, None]) * N + n)
        total = tl.dot(left, right, total)
    tl.store(z + m * N + n, total.to(z.dtype.element_ty), (m < M) & (tl.program_id(0) < 1))


class ModelNew(nn.Module):
    def forward(self, x, y):
        (m, k), n = x.shape, y.shape[1]
        z = torch.empty(m, n, dtype=x.dtype, device=x.device)
        product[(1,)](x, y, z, m, n, k, STEP=32)
        return z
"""

ROUNDING = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.clamp(-448, 448).to(torch.float8_e4m3fn)


def get_inputs():
    return [torch.randn(64, 64) * torch.logspace(-4, 2, 64)]


def get_init_inputs():
    return []
"""
ROUNDED = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rounded(x, y, SIZE: tl.constexpr):
    offs = tl.arange(0, SIZE)
    tl.store(y + offs, tl.load(x + offs).to(y.dtype.element_ty))


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x, dtype=torch.float8_e4m3fn)
        rounded[(1,)](x, y, x.numel())
        return y
"""

WRAPPING = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 1103515245 + x


def get_inputs():
    return [torch.randint(2**31, (16, 64), dtype=torch.int32)]


def get_init_inputs():
    return []
"""
WRAPPED = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def wrapped(x, y, SIZE: tl.constexpr):
    offs = tl.arange(0, SIZE)
    value = tl.load(x + offs)
    tl.store(y + offs, value * 1103515245 + value)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        wrapped[(1,)](x, y, x.numel())
        return y
"""


def test_whole_numbers_that_overflow_wrap_around_as_on_a_gpu(evaluator: LocalEvaluator) -> None:
    problem = TorchProblem(id="level1/1_996", name="996_Wrapped", source=WRAPPING)
    (evaluation,) = evaluator.evaluate(problem, PythonKernel.parse(WRAPPED), [Config()])
    assert evaluation.status is Status.OK, evaluation.message
    assert evaluation.correctness is not None and evaluation.correctness.max_abs_error == 0


def test_fp8_is_rounded_as_torch_rounds_and_stays_finite(evaluator: LocalEvaluator) -> None:
    problem = TorchProblem(id="level1/1_997", name="997_Rounded", source=ROUNDING)
    (evaluation,) = evaluator.evaluate(problem, PythonKernel.parse(ROUNDED), [Config()])
    assert evaluation.status is Status.OK, evaluation.message
    assert evaluation.correctness is not None and evaluation.correctness.max_abs_error == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_products_are_correct(evaluator: LocalEvaluator, dtype: str) -> None:
    problem = TorchProblem(id="level1/1_998", name="998_Product", source=PROBLEM.format(dtype=dtype))
    (evaluation,) = evaluator.evaluate(problem, PythonKernel.parse(KERNEL), [Config()])
    assert evaluation.status is Status.OK, evaluation.message
    assert "bf16 is computed in fp32" in evaluation.environment["triton_interpreter"]


@pytest.fixture(scope="module")
def operations() -> dict[str, dict[str, str]]:
    """What differs from torch, by group and case: nothing where the text is empty."""
    program = Path(__file__).with_name("interpreted_operations.py")
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: dict[str, dict[str, str]] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("group", "cases"),
    [
        ("arithmetic", 12), ("conversions", 72), ("reductions", 16), ("functions_of_libdevice", 118), ("calls", 8),
        ("limits", 4), ("gpu", 4),
    ],
)  # fmt: skip
def test_operations_are_those_of_a_gpu(operations: dict[str, dict[str, str]], group: str, cases: int) -> None:
    assert len(operations[group]) == cases
    assert {case: text for case, text in operations[group].items() if text} == {}


def test_tl_is_replaced_once_in_a_launch_whatever_it_calls() -> None:
    asked: list[list[str]] = []
    restored: list[bool] = []

    def really(function: Any) -> Any:
        asked.append(sorted(function.__globals__))
        return SimpleNamespace(restore=lambda: restored.append(True))

    patch = _patching_once(really)
    for _ in range(2):
        scope = patch(len)  # a kernel's module need not know `tl`
        assert patch(max) is None and patch(min) is None
        scope.restore()
    assert asked == [["core", "tl"]] * 2
    assert len(restored) == 2
