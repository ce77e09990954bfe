"""Experts in fp8: what tensor cores round otherwise than PyTorch is correct, a coarser rounding is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core import Status
from kernelwright.corpus import find_problem
from kernelwright.evaluators.correctness.compare import Allowed, compare_tensor
from kernelwright.evaluators.workers.modules import ProblemModule
from torch.nn.functional import silu

SIZES = {"M": 96, "N": 320, "K": 520, "E": 2, "TOP_K": 1, "DTYPE": "float8_e4m3fn"}
BLOCK = 128
E4M3 = torch.float8_e4m3fn
STEP = 32
"""Products that one instruction adds."""


def blocks(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x.float(), (0, -x.shape[-1] % BLOCK)).unflatten(-1, (-1, BLOCK))


def rounded(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    limit = torch.finfo(dtype).max
    parts = blocks(x)
    scales = parts.abs().amax(-1, keepdim=True).clamp(min=1e-10) / limit
    return (parts / scales).clamp(-limit, limit).to(dtype).float(), scales


def on_tensor_cores(a: torch.Tensor, b: torch.Tensor, bits: int) -> torch.Tensor:
    """Sums of products that are cut off so many bits below the largest of an instruction, shape (rows, columns)."""
    total = torch.zeros(len(a), len(b))
    for k in range(0, a.shape[1], STEP):
        products = a[:, None, k : k + STEP] * b[None, :, k : k + STEP]
        largest = torch.maximum(products.abs().amax(-1), total.abs()).clamp(min=1e-30)
        unit = torch.exp2(largest.log2().floor() - bits)
        total = ((products / unit[..., None]).trunc().sum(-1) + (total / unit).trunc()) * unit
    return total


def multiply(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype, bits: int) -> Any:
    values, own = rounded(x, dtype)
    weights = blocks(weight)
    theirs = scales.repeat_interleave(BLOCK, 0)[: len(weight)]
    found = [
        on_tensor_cores(values[:, k], weights[:, k], bits) * own[:, k] * theirs[:, k] for k in range(values.shape[1])
    ]
    return torch.stack(found).sum(0).to(torch.bfloat16)


def engine(model: Any, inputs: list[torch.Tensor], dtype: torch.dtype, bits: int) -> torch.Tensor:
    x, weights, ids = inputs
    out = torch.zeros(x.shape)
    for number in range(SIZES["E"]):
        token = torch.where(ids[:, 0] == number)[0]
        up = multiply(x[token], model.w1[number], model.w1_scale[number], E4M3, bits)
        gate, factor = up.chunk(2, -1)
        part = multiply(silu(gate) * factor, model.w2[number], model.w2_scale[number], dtype, bits)
        out[token] = part.float() * weights[token]
    return out.to(x.dtype)


@pytest.mark.parametrize(("bits", "status"), [(12, Status.WRONG_VALUE), (13, Status.OK), (14, Status.OK)])
def test_sums_of_tensor_cores_are_correct_and_a_coarser_rounding_is_not(bits: int, status: Status) -> None:
    problem = find_problem("gemm/moe").read().resized("test", SIZES)
    module = ProblemModule(Path(problem.path), SIZES, "cpu")
    inputs = module.inputs(0)
    model = module.model(0)
    with torch.no_grad():
        expected = model(*inputs)
        found, coarse = (engine(model, inputs, dtype, bits) for dtype in (E4M3, torch.float8_e5m2))
    allowed = Allowed(problem.tolerances).of(expected)
    strict = compare_tensor(expected, found, allowed._replace(matched=1.0))
    assert strict["status"] is Status.WRONG_VALUE, "what lies between two fp8 values is rounded to the other one"
    assert compare_tensor(expected, found, allowed)["status"] is status
    assert compare_tensor(expected, coarse, allowed)["status"] is Status.WRONG_VALUE
