"""Small kernels that no cache contains: problems and kernels from a template, each with a different text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kernelwright.core import Kernel, PythonKernel, TorchProblem

FUSIONS = {
    "relu": ("torch.relu(v)", "tl.maximum(v, 0.0)", "T.max({v}, 0.0)"),
    "square": ("v * v", "v * v", "{v} * {v}"),
    "sigmoid": ("torch.sigmoid(v)", "1.0 / (1.0 + tl.exp(-v))", "1.0 / (1.0 + T.exp(-({v})))"),
    "abs": ("torch.abs(v)", "tl.abs(v)", "T.abs({v})"),
}
"""The operation after the multiply-add: in torch, in Triton, in TileLang."""
EACH = 6
"""Kernels per problem, one after the other, as in a search."""

PROBLEM = """
import torch
from torch import nn

rows = {rows}
columns = 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        v = x * {scale} + y
        return {torch}


def get_inputs():
    return [torch.randn(rows, columns), torch.randn(rows, columns)]


def get_init_inputs():
    return []
"""

TRITON = '''"""Multiply-add and {name}, {per} times {block} elements per program."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def fused_{number}(x, y, out, size, BLOCK: tl.constexpr, PER: tl.constexpr):
    start = tl.program_id(0) * BLOCK * PER
    for i in tl.static_range(PER):
        at = start + i * BLOCK + tl.arange(0, BLOCK)
        mask = at < size
        v = tl.load(x + at, mask) * {scale} + tl.load(y + at, mask)
        tl.store(out + at, {triton}, mask)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        size = x.numel()
        grid = (triton.cdiv(size, {block} * {per}),)
        fused_{number}[grid](x, y, out, size, BLOCK={block}, PER={per}, num_warps={warps})
        return out
'''

TILELANG = '''"""Multiply-add and {name}, {block} elements per step."""

import functools

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn


@functools.cache
def build_{number}(L: int):
    @T.prim_func
    def fused_{number}(
        X: T.Tensor((L,), "float32"), Y: T.Tensor((L,), "float32"), Z: T.Tensor((L,), "float32")
    ):
        with T.Kernel(T.ceildiv(L, {block})) as bx:
            for j in T.serial({block}):
                Z[bx * {block} + j] = {tilelang}

    return tilelang.compile(fused_{number}, out_idx=[-1], target="c", compile_flags=["-O3", "-march=native"])


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return build_{number}(x.numel())(x.view(-1), y.view(-1)).view(x.shape)
'''


def kernels(device: str, count: int) -> Iterator[tuple[TorchProblem, Kernel]]:
    """Yield `count` kernels, `EACH` for one problem after the other."""
    on_gpu = device.startswith("cuda")
    blocks = itertools.product((256, 512, 1024, 2048), (1, 2))
    shapes = itertools.cycle(blocks)
    for number in range(count):
        name = list(FUSIONS)[number // EACH % len(FUSIONS)]
        torch, triton, tilelang = FUSIONS[name]
        scale = 0.5 + number // EACH / 8
        block, per = next(shapes)
        v = f"(X[bx * {block} + j] * T.float32({scale}) + Y[bx * {block} + j])"
        values = {
            "name": name, "number": number, "scale": scale, "block": block, "per": per,
            "warps": 4 if block < 1024 else 8,
            "rows": 2048 if on_gpu else 128, "torch": torch, "triton": triton, "tilelang": tilelang.format(v=v),
        }  # fmt: skip
        problem = TorchProblem(
            id=f"timing/{name}_{number // EACH}", name=f"fused_{name}", source=PROBLEM.format(**values)
        )
        yield problem, PythonKernel.parse((TRITON if on_gpu else TILELANG).format(**values), name=f"fused_{number}")
