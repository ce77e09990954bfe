"""Layer norm in one kernel: a block keeps its row in registers for the mean, the variance and the normalization.

The row is read from memory once instead of three times, and the two moments never leave the block. The variance is
still taken about the mean, so nothing is lost in accuracy. The length of a row is a multiple of THREADS. It does not
help for rows longer than a block's registers hold, or for so few rows that they stay in the L2 cache between kernels.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

THREADS = 256

SEARCH_SPACE = {"THREADS": [128, 256, 512]}


@functools.lru_cache
def build(M, N, eps):
    @T.prim_func
    def layer_norm(
        x: T.Tensor((M, N), "float32"),
        weight: T.Tensor((N,), "float32"),
        bias: T.Tensor((N,), "float32"),
        y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(M, threads=THREADS) as row:
            tile = T.alloc_fragment((N,), "float32")
            square = T.alloc_fragment((N,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            scale = T.alloc_fragment((1,), "float32")
            T.copy(x[row, 0], tile)
            T.reduce_sum(tile, mean, dim=0)
            for i in T.Parallel(1):
                mean[i] = mean[i] / N
            for j in T.Parallel(N):
                tile[j] = tile[j] - mean[0]
                square[j] = tile[j] * tile[j]
            T.reduce_sum(square, scale, dim=0)
            for i in T.Parallel(1):
                scale[i] = T.rsqrt(scale[i] / N + eps)
            for j in T.Parallel(N):
                tile[j] = tile[j] * scale[0] * weight[j] + bias[j]
            T.copy(tile, y[row, 0])

    return tilelang.compile(layer_norm, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))
        self.bias = nn.Parameter(torch.randn(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        return build(M, N, self.eps)(x.contiguous(), self.weight, self.bias)
