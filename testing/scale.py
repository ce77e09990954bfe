"""A problem and a kernel so small that a real compile and a real check take about a second."""

from __future__ import annotations

from ..core import PythonKernel, TorchProblem

SCALE_PROBLEM = """
import torch
from torch import nn

rows = 64
columns = 256

WORKLOADS = {"cpu": {"rows": 32}, "tiny": {"rows": 4, "columns": 64}}


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [columns]
"""

SCALE_KERNEL = '''"""Each row times a vector."""

import functools

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3"]
BLOCK = 8

SEARCH_SPACE = {"BLOCK": [4, 8, 16]}


@functools.lru_cache(maxsize=None)
def build(M: int, N: int):
    @T.prim_func
    def scale(X: T.Tensor((M, N), "float32"), W: T.Tensor((N,), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, BLOCK)) as b:
            for i, j in T.grid(BLOCK, N):
                Y[b * BLOCK + i, j] = X[b * BLOCK + i, j] * W[j]

    return tilelang.compile(scale, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return build(*x.shape)(x, self.weight)
'''


def scale_problem() -> TorchProblem:
    """Each row of a matrix times a vector; 32 rows of 256 columns."""
    return TorchProblem(id="level1/1_999", name="999_Scale", source=SCALE_PROBLEM).at("cpu")


def scale_kernel() -> PythonKernel:
    """A kernel for it in TileLang for CPUs, with the constant BLOCK: 4, 8 and 16 work."""
    return PythonKernel.parse(SCALE_KERNEL, "scale")
