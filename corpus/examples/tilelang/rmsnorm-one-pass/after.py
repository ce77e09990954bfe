"""RMS norm with a block for a few rows: they are read once into a fragment, reduced there, scaled and written.

Neighbouring threads now hold neighbouring elements, so a warp reads whole cache lines in wide loads, and the second
read is gone. All threads of a block share each row, which also gives the GPU many more threads. It does not help when
rows are too long for a block's registers; then pieces of the row have to be summed one after the other.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_M = 4
THREADS = 256

SEARCH_SPACE = {"BLOCK_M": [1, 2, 4, 8], "THREADS": [64, 128, 256]}
CONSTRAINTS = ["16 * BLOCK_M <= THREADS"]


@functools.lru_cache
def build(M, N, eps):
    @T.prim_func
    def rms_norm(x: T.Tensor((M, N), "float32"), weight: T.Tensor((N,), "float32"), y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, BLOCK_M), threads=THREADS) as bx:
            tile = T.alloc_fragment((BLOCK_M, N), "float32")
            square = T.alloc_fragment((BLOCK_M, N), "float32")
            rms = T.alloc_fragment((BLOCK_M,), "float32")
            T.copy(x[bx * BLOCK_M, 0], tile)
            for i, j in T.Parallel(BLOCK_M, N):
                square[i, j] = tile[i, j] * tile[i, j]
            T.reduce_sum(square, rms, dim=1)
            for i in T.Parallel(BLOCK_M):
                rms[i] = T.rsqrt(rms[i] / N + eps)
            for i, j in T.Parallel(BLOCK_M, N):
                tile[i, j] = tile[i, j] * rms[i] * weight[j]
            T.copy(tile, y[bx * BLOCK_M, 0])

    return tilelang.compile(rms_norm, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        return build(M, N, self.eps)(x.contiguous(), self.weight)
