"""Layer norm in three kernels, a block per row in each: the mean, the variance about it, the normalization.

The length of a row is a multiple of THREADS.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

THREADS = 256


@functools.lru_cache
def build_mean(M, N):
    @T.prim_func
    def row_mean(x: T.Tensor((M, N), "float32"), mean: T.Tensor((M,), "float32")):
        with T.Kernel(M, threads=THREADS) as row:
            tile = T.alloc_fragment((N,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(x[row, 0], tile)
            T.reduce_sum(tile, total, dim=0)
            for i in T.Parallel(1):
                mean[row + i] = total[i] / N

    return tilelang.compile(row_mean, out_idx=[-1], target=TARGET)


@functools.lru_cache
def build_variance(M, N):
    @T.prim_func
    def row_variance(
        x: T.Tensor((M, N), "float32"), mean: T.Tensor((M,), "float32"), variance: T.Tensor((M,), "float32")
    ):
        with T.Kernel(M, threads=THREADS) as row:
            tile = T.alloc_fragment((N,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(x[row, 0], tile)
            for j in T.Parallel(N):
                tile[j] = (tile[j] - mean[row]) * (tile[j] - mean[row])
            T.reduce_sum(tile, total, dim=0)
            for i in T.Parallel(1):
                variance[row + i] = total[i] / N

    return tilelang.compile(row_variance, out_idx=[-1], target=TARGET)


@functools.lru_cache
def build_normalize(M, N, eps):
    @T.prim_func
    def normalize(
        x: T.Tensor((M, N), "float32"),
        mean: T.Tensor((M,), "float32"),
        variance: T.Tensor((M,), "float32"),
        weight: T.Tensor((N,), "float32"),
        bias: T.Tensor((N,), "float32"),
        y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(M, threads=THREADS) as row:
            tile = T.alloc_fragment((N,), "float32")
            T.copy(x[row, 0], tile)
            for j in T.Parallel(N):
                tile[j] = (tile[j] - mean[row]) * T.rsqrt(variance[row] + eps) * weight[j] + bias[j]
            T.copy(tile, y[row, 0])

    return tilelang.compile(normalize, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))
        self.bias = nn.Parameter(torch.randn(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        x = x.contiguous()
        mean = build_mean(M, N)(x)
        variance = build_variance(M, N)(x, mean)
        return build_normalize(M, N, self.eps)(x, mean, variance, self.weight, self.bias)
