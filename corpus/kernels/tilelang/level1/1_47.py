"""Sum over one dimension: a block takes a run of the inner dimension, and its threads split the rows."""

import functools
import math

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_M = 32
BLOCK_N = 128
THREADS = 256

SEARCH_SPACE = {"BLOCK_M": [16, 32, 64], "BLOCK_N": [64, 128, 256], "THREADS": [128, 256, 512]}
CONSTRAINTS = ["BLOCK_M * BLOCK_N >= 4 * THREADS", "BLOCK_M * BLOCK_N <= 64 * THREADS"]


@functools.lru_cache
def build(outer, D, inner):
    @T.prim_func
    def reduce_sum(x: T.Tensor((outer, D, inner), "float32"), y: T.Tensor((outer, inner), "float32")):
        with T.Kernel(T.ceildiv(inner, BLOCK_N), outer, threads=THREADS) as (bx, b):
            tile = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            partial = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            total = T.alloc_fragment((BLOCK_N,), "float32")
            T.clear(partial)
            for block in T.serial(T.ceildiv(D, BLOCK_M)):
                T.copy(x[b, block * BLOCK_M, bx * BLOCK_N], tile)
                for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                    partial[i, j] += tile[i, j]
            T.reduce_sum(partial, total, dim=0)
            T.copy(total, y[b, bx * BLOCK_N])

    return tilelang.compile(reduce_sum, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dim = self.dim % x.dim()
        outer, inner = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
        y = build(outer, x.shape[dim], inner)(x.contiguous().view(outer, x.shape[dim], inner))
        return y.view(*x.shape[:dim], 1, *x.shape[dim + 1 :])
