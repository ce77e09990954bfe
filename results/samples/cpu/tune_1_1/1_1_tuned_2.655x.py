"""
Problem Name: 1_Square_matrix_multiplication_
Evaluation Result: {'compiled': True, 'correctness': True, 'speedup_ratio': 0.5463, 'interval': [0.5436, 0.5492], 'latency_ms': 2.4408304999999997, 'reference_ms': 1.333356, 'start_latency_ms': 6.4809615, 'samples': 300, 'seeds': [1790948930, 2007172117, 43588492], 'max_abs_error': 9.918212890625e-05, 'tolerance': 0.0001, 'workload': 'cpu', 'sizes': {'N': 512}, 'device': 'AMD EPYC, 2 cores', 'python': '3.11.7', 'torch': '2.13.0+cpu', 'threads': '2', 'tilelang': '0.1.15', 'triton': '3.9.0'}

Square matrix product: grid over BLOCK_M x BLOCK_N tiles of C, each accumulated locally, TILE_M rows at a time.
"""

import functools
import platform

import tilelang
import tilelang.cpu.language as T
import torch
from torch import nn

COMPILE_FLAGS = ["-O3", "-march=native"]

BLOCK_M = 8
BLOCK_N = 16
BLOCK_K = 2
TILE_M = 2
VECTOR_BITS = 512

SEARCH_SPACE = {
    "BLOCK_M": [8, 16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128, 256],
    "BLOCK_K": [2, 4, 8, 16, 32, 64],
    "TILE_M": [1, 2, 4, 8],
    "VECTOR_BITS": [256, 512],
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
                for i in T.serial(BLOCK_M // TILE_M):
                    for kk in T.serial(BLOCK_K):
                        for j in T.serial(BLOCK_N):
                            for r in T.unroll(TILE_M):
                                acc[i * TILE_M + r, j] += (
                                    A[by * BLOCK_M + i * TILE_M + r, ko * BLOCK_K + kk]
                                    * B[ko * BLOCK_K + kk, bx * BLOCK_N + j]
                                )
            for i, j in T.grid(BLOCK_M, BLOCK_N):
                C[by * BLOCK_M + i, bx * BLOCK_N + j] = acc[i, j]

    # Compilers for x86 use half of the widest registers unless told to use them all.
    width = [f"-mprefer-vector-width={VECTOR_BITS}"] if platform.machine() == "x86_64" else []
    return tilelang.compile(matmul, out_idx=[-1], target="c", compile_flags=[*COMPILE_FLAGS, *width])


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        M, K = A.shape
        N = B.shape[1]
        kernel = build_matmul(M, N, K)
        return kernel(A.contiguous(), B.contiguous())
