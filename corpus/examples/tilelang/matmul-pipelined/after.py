"""fp16 matrix product on tensor cores: a pipeline of copies runs ahead of the products, on larger tiles.

T.Pipelined gives every tile several buffers: the next ones arrive, by asynchronous copies that warps of their own
issue on Hopper, while the present ones are multiplied. Larger tiles do more products per loaded element.
No help for products with few tiles, which then leave SMs idle, or with a K of only a few tiles: nothing runs ahead.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_M = 128
BLOCK_N = 256
BLOCK_K = 64
THREADS = 256
NUM_STAGES = 3

SEARCH_SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64, 128],
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
