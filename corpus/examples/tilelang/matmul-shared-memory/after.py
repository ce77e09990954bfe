"""fp32 matrix product: tiles of both operands in shared memory, a tile of C per thread in registers.

A block loads each element of its tiles from global memory once for 128 uses, and a thread keeps 64 sums in registers:
for each k it reads 16 values of A and 4 of B from shared memory, by wide loads, and does 64 multiply-adds with them.
No help for narrow products (a vector, a handful of rows), where there is nothing to reuse.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 16
THREADS = 256
UNROLL_K = 4
MIN_BLOCKS = 2

SEARCH_SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [8, 16, 32],
    "THREADS": [128, 256],
    "UNROLL_K": [2, 4, 8],
    "MIN_BLOCKS": [1, 2, 3],
}
CONSTRAINTS = ["BLOCK_M * BLOCK_N <= 64 * THREADS", "MIN_BLOCKS * THREADS <= 512"]


@functools.lru_cache
def build(M, N, K):
    @T.prim_func
    def matmul(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, BLOCK_N), T.ceildiv(M, BLOCK_M), threads=THREADS) as (bx, by):
            A_shared = T.alloc_shared((BLOCK_M, BLOCK_K), "float32")
            B_shared = T.alloc_shared((BLOCK_K, BLOCK_N), "float32")
            C_local = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            # Bounds the registers per thread, so that the blocks of one SM hide each other's barriers.
            T.annotate_min_blocks_per_sm(MIN_BLOCKS)
            T.clear(C_local)
            for ko in T.serial(T.ceildiv(K, BLOCK_K)):
                T.copy(A[by * BLOCK_M, ko * BLOCK_K], A_shared, disable_tma=True)
                T.copy(B[ko * BLOCK_K, bx * BLOCK_N], B_shared, disable_tma=True)
                # T.gemm would round fp32 operands to TF32. The unrolling lets A be read four k at a time.
                for k in T.unroll(BLOCK_K, unroll_factor=UNROLL_K):
                    for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                        C_local[i, j] += A_shared[i, k] * B_shared[k, j]
            T.copy(C_local, C[by * BLOCK_M, bx * BLOCK_N])

    return tilelang.compile(matmul, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        M, K = A.shape
        N = B.shape[1]
        return build(M, N, K)(A.contiguous(), B.contiguous())
