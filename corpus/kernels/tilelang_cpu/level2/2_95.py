"""Linear, add, swish, tanh, GELU, hardtanh: a tiled product that transposes weight tiles into a local buffer,
then a second, elementwise kernel for all that follows."""

import functools
import math

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]

BLOCK_M = 64
BLOCK_N = 64
BLOCK_K = 32

SEARCH_SPACE = {
    "BLOCK_M": [8, 16, 32, 64, 128, 256],
    "BLOCK_N": [16, 32, 64, 128, 256],
    "BLOCK_K": [8, 16, 32, 64, 128],
}
CONSTRAINTS = ["BLOCK_M * BLOCK_N <= 16384", "BLOCK_K * BLOCK_N <= 8192"]


@functools.cache
def build_linear(M: int, N: int, K: int):
    @T.prim_func
    def linear(
        X: T.Tensor((M, K), "float32"),
        W: T.Tensor((N, K), "float32"),
        bias: T.Tensor((N,), "float32"),
        Y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, BLOCK_M), T.ceildiv(N, BLOCK_N)) as (by, bx):
            acc = T.alloc_local((BLOCK_M, BLOCK_N), "float32")
            WT = T.alloc_local((BLOCK_K, BLOCK_N), "float32")
            T.clear(acc)
            for ko in T.serial(T.ceildiv(K, BLOCK_K)):
                for j, kk in T.grid(BLOCK_N, BLOCK_K):
                    WT[kk, j] = W[bx * BLOCK_N + j, ko * BLOCK_K + kk]
                for i in T.serial(BLOCK_M):
                    for kk in T.serial(BLOCK_K):
                        for j in T.serial(BLOCK_N):
                            acc[i, j] += X[by * BLOCK_M + i, ko * BLOCK_K + kk] * WT[kk, j]
            for i, j in T.grid(BLOCK_M, BLOCK_N):
                Y[by * BLOCK_M + i, bx * BLOCK_N + j] = acc[i, j] + bias[bx * BLOCK_N + j]

    return tilelang.compile(linear, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


@functools.cache
def build_epilogue(M: int, N: int):
    inv_sqrt2 = 1.0 / math.sqrt(2.0)

    @T.prim_func
    def epilogue(
        X: T.Tensor((M, N), "float32"),
        add_value: T.Tensor((N,), "float32"),
        Y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(M) as row:
            v = T.alloc_local((1,), "float32")
            for j in T.serial(N):
                v[0] = X[row, j] + add_value[j]
                v[0] = T.sigmoid(v[0]) * v[0]
                v[0] = T.tanh(v[0])
                v[0] = 0.5 * v[0] * (1.0 + T.erf(v[0] * inv_sqrt2))
                Y[row, j] = T.max(T.min(v[0], 1.0), -1.0)

    return tilelang.compile(epilogue, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int, add_value_shape: tuple[int, ...]):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.add_value = nn.Parameter(torch.randn(add_value_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, K = x.shape
        N = self.matmul.out_features
        linear = build_linear(M, N, K)
        epilogue = build_epilogue(M, N)
        return epilogue(linear(x.contiguous(), self.matmul.weight, self.matmul.bias), self.add_value)
