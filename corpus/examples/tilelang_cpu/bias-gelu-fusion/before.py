"""Bias and GELU as three kernels over the whole tensor: the sum, the gate in (0, 1), their product."""

import functools
import math

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

# So that g++ vectorizes expf: no error codes, and __FAST_MATH__ for the C library's vector forms.
COMPILE_FLAGS = ["-O3", "-march=native", "-fno-math-errno -fno-trapping-math -fno-signed-zeros"]
COMPILE_FLAGS += ["-fassociative-math -freciprocal-math -D__FAST_MATH__"]


@functools.cache
def build_add_bias(M: int, N: int):
    @T.prim_func
    def add_bias(X: T.Tensor((M, N), "float32"), bias: T.Tensor((N,), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as row:
            for j in T.serial(N):
                Y[row, j] = X[row, j] + bias[j]

    return tilelang.compile(add_bias, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


@functools.cache
def build_gate(M: int, N: int):
    scale = 2.0 * math.sqrt(2.0 / math.pi)

    @T.prim_func
    def gate(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as row:
            for j in T.serial(N):
                # 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2 u))
                Y[row, j] = 1.0 / (1.0 + T.exp(-scale * (X[row, j] + 0.044715 * X[row, j] * X[row, j] * X[row, j])))

    return tilelang.compile(gate, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


@functools.cache
def build_product(M: int, N: int):
    @T.prim_func
    def product(X: T.Tensor((M, N), "float32"), Z: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M) as row:
            for j in T.serial(N):
                Y[row, j] = X[row, j] * Z[row, j]

    return tilelang.compile(product, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        biased = build_add_bias(M, N)(x.contiguous(), self.bias)
        return build_product(M, N)(biased, build_gate(M, N)(biased))
