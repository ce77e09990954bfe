"""Matrix transpose through shared memory: a tile is read by rows and written by rows of the result.

Read straight across, neighbouring threads write a column apart, and each write touches a cache line of its own. With
the tile in shared memory both sides of global memory are contiguous, and the odd row length spreads a column of the
tile over all banks. It does not help for matrices that fit the L2 cache, which merges the scattered writes.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_M = 64
BLOCK_N = 64
THREADS = 256
PAD = 1

SEARCH_SPACE = {"BLOCK_M": [32, 64, 128], "BLOCK_N": [32, 64, 128], "THREADS": [128, 256, 512]}
CONSTRAINTS = ["BLOCK_M * BLOCK_N >= 4 * THREADS"]


@functools.lru_cache
def build(M, N):
    @T.prim_func
    def transpose(x: T.Tensor((M, N), "float32"), y: T.Tensor((N, M), "float32")):
        with T.Kernel(T.ceildiv(N, BLOCK_N), T.ceildiv(M, BLOCK_M), threads=THREADS) as (bx, by):
            tile = T.alloc_shared((BLOCK_M, BLOCK_N + PAD), "float32")
            # By way of registers, which keeps the reads wide; the odd rows of the tile take single elements only.
            rows = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            T.copy(x[by * BLOCK_M, bx * BLOCK_N], rows)
            for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                tile[i, j] = rows[i, j]
            for j, i in T.Parallel(BLOCK_N, BLOCK_M):
                if by * BLOCK_M + i < M and bx * BLOCK_N + j < N:
                    y[bx * BLOCK_N + j, by * BLOCK_M + i] = tile[i, j]

    return tilelang.compile(transpose, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        return build(M, N)(x.contiguous())
