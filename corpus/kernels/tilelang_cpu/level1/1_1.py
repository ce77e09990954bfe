"""Square matrix product: grid over BLOCK_M x BLOCK_N tiles of C, one local accumulator tile each."""

import functools

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]

BLOCK_M = 32
BLOCK_N = 64
BLOCK_K = 32

SEARCH_SPACE = {
    "BLOCK_M": [8, 16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128, 256],
    "BLOCK_K": [8, 16, 32, 64, 128, 256],
}
CONSTRAINTS = ["BLOCK_M * BLOCK_N <= 8192"]


@functools.cache
def build_matmul(M: int, N: int, K: int):
    @T.prim_func
    def matmul(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, BLOCK_M), T.ceildiv(N, BLOCK_N)) as (by, bx):
            acc = T.alloc_local((BLOCK_M, BLOCK_N), "float32")
            T.clear(acc)
            for ko in T.serial(T.ceildiv(K, BLOCK_K)):
                for i in T.serial(BLOCK_M):
                    for kk in T.serial(BLOCK_K):
                        for j in T.serial(BLOCK_N):
                            acc[i, j] += A[by * BLOCK_M + i, ko * BLOCK_K + kk] * B[ko * BLOCK_K + kk, bx * BLOCK_N + j]
            for i, j in T.grid(BLOCK_M, BLOCK_N):
                C[by * BLOCK_M + i, bx * BLOCK_N + j] = acc[i, j]

    return tilelang.compile(matmul, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        M, K = A.shape
        N = B.shape[1]
        kernel = build_matmul(M, N, K)
        return kernel(A.contiguous(), B.contiguous())
