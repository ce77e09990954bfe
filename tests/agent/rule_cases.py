"""Kernels in TileLang for the CPU on which rules are tried, and what they compute in torch."""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.core import PythonKernel, TorchProblem

PROBLEM = """
import torch
from torch import nn

rows = 19
columns = 70


class Model(nn.Module):
    def forward(self, x, w):
        {reference}


def get_inputs():
    return [torch.rand(rows, columns) + 0.1, torch.rand(columns, columns) + 0.1]


def get_init_inputs():
    return []
"""

KERNEL = """
import functools

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]
BLOCK = 8


@functools.lru_cache(maxsize=None)
def build(M: int, N: int):
    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), W: T.Tensor((N, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel({grid}) as {axes}:
{body}

    return tilelang.compile(kernel, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def forward(self, x, w):
        return build(*x.shape)(x, w)
"""


@dataclass(frozen=True)
class Case:
    """A kernel in TileLang for the CPU, and what it computes in torch."""

    body: str
    reference: str
    grid: str = "M"
    axes: str = "row"

    @property
    def kernel(self) -> PythonKernel:
        lines = self.body.strip("\n").splitlines()
        margin = len(lines[0]) - len(lines[0].lstrip())
        body = "\n".join(" " * 12 + line[margin:] for line in lines)
        return PythonKernel.parse(KERNEL.format(grid=self.grid, axes=self.axes, body=body))

    @property
    def problem(self) -> TorchProblem:
        return TorchProblem(id="level1/1_997", name="997_Case", source=PROBLEM.format(reference=self.reference))


PRODUCT = Case(
    """
    acc = T.alloc_local((BLOCK, N), "float32")
    T.clear(acc)
    for k in T.serial(N):
        for i, j in T.grid(BLOCK, N):
            acc[i, j] += X[by * BLOCK + i, k] * W[k, j]
    for i, j in T.grid(BLOCK, N):
        Y[by * BLOCK + i, j] = acc[i, j]
    """,
    "return x @ w",
    grid="T.ceildiv(M, BLOCK)",
    axes="by",
)
COLUMNS = Case(
    """
    acc = T.alloc_local((BLOCK,), "float32")
    T.fill(acc, 0.0)
    for k in T.serial(N):
        for i in T.serial(BLOCK):
            acc[i] += X[by * BLOCK + i, k] * W[k, column]
    for i in T.serial(BLOCK):
        Y[by * BLOCK + i, column] = acc[i]
    """,
    "return x @ w",
    grid="T.ceildiv(M, BLOCK), N",
    axes="(by, column)",
)
ROW_SUM = Case(
    """
    acc = T.alloc_local((1,), "float32")
    acc[0] = 0.0
    for j in T.serial(N):
        acc[0] += X[row, j] * 2.0
    for j in T.serial(N):
        Y[row, j] = X[row, j] / T.sqrt(acc[0] + 1.0)
    """,
    "return x / torch.sqrt(2 * x.sum(1, keepdim=True) + 1)",
)
ROW_MAX = Case(
    """
    top = T.alloc_local((1,), "float32")
    top[0] = X[row, 0]
    for j in T.serial(N):
        top[0] = T.max(top[0], X[row, j])
    for j in T.serial(N):
        Y[row, j] = X[row, j] - top[0]
    """,
    "return x - x.amax(1, keepdim=True)",
)
PER_COLUMN = Case(
    """
    scale = T.alloc_local((N,), "float32")
    for j in T.serial(N):
        scale[j] = W[0, j]
    for i in T.serial(BLOCK):
        for j in T.serial(N):
            Y[by * BLOCK + i, j] = X[by * BLOCK + i, j] / T.sqrt(scale[j] + 1.0)
    """,
    "return x / torch.sqrt(w[0] + 1)",
    grid="T.ceildiv(M, BLOCK)",
    axes="by",
)
TWO_PASSES = Case(
    """
    acc = T.alloc_local((1,), "float32")
    for j in T.serial(N):
        Y[row, j] = T.exp(X[row, j])
    acc[0] = 0.0
    for i in T.serial(N):
        acc[0] += Y[row, i]
    for j in T.serial(N):
        Y[row, j] = Y[row, j] / acc[0]
    """,
    "return torch.exp(x) / torch.exp(x).sum(1, keepdim=True)",
)
SHIFTED_PASSES = Case(
    """
    buffer = T.alloc_local((N,), "float32")
    for j in T.serial(N):
        buffer[j] = X[row, j]
    for j in T.serial(N):
        Y[row, j] = buffer[N - 1 - j]
    """,
    "return x.flip(1)",
)
WRONG_ORDER = Case(
    """
    acc = T.alloc_local((BLOCK, N), "float32")
    T.clear(acc)
    for i in T.serial(BLOCK):
        for j in T.serial(N):
            for k in T.serial(N):
                acc[i, j] += X[by * BLOCK + i, k] * W[k, j]
    for i, j in T.grid(BLOCK, N):
        Y[by * BLOCK + i, j] = acc[i, j]
    """,
    "return x @ w",
    grid="T.ceildiv(M, BLOCK)",
    axes="by",
)
WINDOW = Case(
    """
    acc = T.alloc_local((N,), "float32")
    T.clear(acc)
    for ky, kx in T.grid(3, 3):
        for j in T.serial(N - 2):
            acc[j] += X[row, j + kx] * W[ky, kx]
    for j in T.serial(N):
        Y[row, j] = acc[j]
    """,
    """
        out = torch.zeros_like(x)
        for ky in range(3):
            for kx in range(3):
                out[:, : x.shape[1] - 2] += x[:, kx : x.shape[1] - 2 + kx] * w[ky, kx]
        return out""",
)
SCAN = Case(
    """
    acc = T.alloc_local((1,), "float32")
    acc[0] = 0.0
    for j in T.serial(N):
        acc[0] += X[row, j]
        Y[row, j] = acc[0]
    """,
    "return x.cumsum(1)",
)
ONCE = Case(
    """
    root = T.alloc_local((1,), "float32")
    root[0] = T.sqrt(X[row, 0])
    for j in T.serial(N):
        Y[row, j] = X[row, j] * root[0]
    """,
    "return x * x[:, :1].sqrt()",
)
ONE_BLOCK = Case(
    """
    for i, j in T.grid(M, N):
        Y[i, j] = T.max(X[i, j], 0.0)
    """,
    "return torch.relu(x)",
    grid="1",
)

TRIANGLE = Case(
    """
    acc = T.alloc_local((N,), "float32")
    T.clear(acc)
    for k in T.serial(N):
        for j in T.serial(k + 1):
            acc[j] += X[row, k] * W[k, j]
    for j in T.serial(N):
        Y[row, j] = acc[j]
    """,
    "return x @ torch.tril(w)",
)
TRIANGULAR_COLUMNS = Case(
    """
    acc = T.alloc_local((BLOCK,), "float32")
    T.fill(acc, 0.0)
    for k in T.serial(column + 1):
        for i in T.serial(BLOCK):
            acc[i] += X[by * BLOCK + i, k] * W[k, column]
    for i in T.serial(BLOCK):
        Y[by * BLOCK + i, column] = acc[i]
    """,
    "return x @ torch.triu(w)",
    grid="T.ceildiv(M, BLOCK), N",
    axes="(by, column)",
)
SHADOWED = Case(
    """
    buffer = T.alloc_local((N,), "float32")
    acc = T.alloc_local((N,), "float32")
    T.clear(acc)
    for j in T.serial(N):
        buffer[j] = X[row, j]
    for c in T.serial(N):
        for j in T.serial(N):
            acc[c] += W[c, j]
    for j in T.serial(N):
        Y[row, j] = buffer[j] + acc[j]
    """,
    "return x + w.sum(1)",
)
SHARED_WRITE = Case(
    """
    for j in T.serial(N):
        Y[0, j] = X[0, j]
    """,
    "return x",
)
DOUBLE = Case(ROW_SUM.body.replace('"float32"', '"float64"'), ROW_SUM.reference)
WHOLE_IMAGE = Case(
    """
    acc = T.alloc_local((BLOCK,), "float32")
    T.clear(acc)
    for h, w in T.grid(N, N):
        for i in T.serial(BLOCK):
            acc[i] += W[h, w]
    for i in T.serial(BLOCK):
        Y[row, i] = acc[i]
    """,
    "return x",
)
