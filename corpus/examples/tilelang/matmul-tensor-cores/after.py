"""fp16 matrix product: tiles in shared memory, the products by T.gemm on the tensor cores.

The loops over the elements of a tile became one T.gemm, which the compiler lowers to the tensor cores' own
instructions: many times the arithmetic rate, fewer instructions, operands read straight from shared memory.
No help where memory is the limit (a narrow product), and not for fp32, whose operands T.gemm rounds to TF32.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 64
THREADS = 256
NUM_STAGES = 2

SEARCH_SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64],
    "THREADS": [128, 256],
    "NUM_STAGES": [2, 3, 4],
}
CONSTRAINTS = [
    "BLOCK_M * BLOCK_N <= 128 * THREADS",
    "NUM_STAGES * (BLOCK_M + BLOCK_N) * BLOCK_K * 2 <= 220000",
]


@functools.lru_cache
def build(M, N, K):
    @T.prim_func
    def matmul(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, BLOCK_N), T.ceildiv(M, BLOCK_M), threads=THREADS) as (bx, by):
            A_shared = T.alloc_shared((BLOCK_M, BLOCK_K), "float16")
            B_shared = T.alloc_shared((BLOCK_K, BLOCK_N), "float16")
            C_local = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            T.clear(C_local)
            for ko in T.Pipelined(0, T.ceildiv(K, BLOCK_K), num_stages=NUM_STAGES):
                T.copy(A[by * BLOCK_M, ko * BLOCK_K], A_shared)
                T.copy(B[ko * BLOCK_K, bx * BLOCK_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * BLOCK_M, bx * BLOCK_N])

    return tilelang.compile(matmul, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        M, K = A.shape
        N = B.shape[1]
        return build(M, N, K)(A.contiguous(), B.contiguous())
