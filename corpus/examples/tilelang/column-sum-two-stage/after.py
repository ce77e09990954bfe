"""Column sums in two stages: SPLITS blocks share the rows of each run of columns, then their partial sums are added.

One block per run of columns leaves most of the GPU idle, whatever each block does. Splitting the rows fills it; the
second stage is the same kernel on SPLITS rows and costs a launch and little traffic. Without atomics the result is the
same in every run. It does not help when the columns alone give several blocks per multiprocessor.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_M = 32
BLOCK_N = 128
THREADS = 256
SPLITS = 128

SEARCH_SPACE = {
    "BLOCK_M": [16, 32, 64],
    "BLOCK_N": [64, 128, 256],
    "THREADS": [128, 256, 512],
    "SPLITS": [16, 32, 64, 128, 256],
}
CONSTRAINTS = ["BLOCK_M * BLOCK_N >= 4 * THREADS", "BLOCK_M * BLOCK_N <= 64 * THREADS"]


@functools.lru_cache
def build(M, N, splits):
    blocks = (M + BLOCK_M - 1) // BLOCK_M

    @T.prim_func
    def sum_rows(x: T.Tensor((M, N), "float32"), y: T.Tensor((splits, N), "float32")):
        with T.Kernel(T.ceildiv(N, BLOCK_N), splits, threads=THREADS) as (bx, split):
            tile = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            partial = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            total = T.alloc_fragment((BLOCK_N,), "float32")
            T.clear(partial)
            for step in T.serial(T.ceildiv(blocks, splits)):
                # Splits take turns, so that at any time they read neighbouring rows. Rows past the end read as 0.
                T.copy(x[(step * splits + split) * BLOCK_M, bx * BLOCK_N], tile)
                for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                    partial[i, j] += tile[i, j]
            T.reduce_sum(partial, total, dim=0)
            T.copy(total, y[split, bx * BLOCK_N])

    return tilelang.compile(sum_rows, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        partial = build(M, N, SPLITS)(x.contiguous())
        return build(SPLITS, N, 1)(partial).view(N)
