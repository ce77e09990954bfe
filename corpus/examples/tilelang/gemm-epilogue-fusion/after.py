"""Linear layer and SiLU in one kernel: bias and activation are applied to the accumulator before it is stored.

The sums are still in registers, in fp32, when the product is done. Bias and SiLU there cost some arithmetic; as kernels
of their own they read and wrote the whole result twice more, and rounded it to fp16 in between.
No help when K is so long that the product dwarfs the passes over its result; never for an operation across tiles.
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
    def linear_silu(
        x: T.Tensor((M, K), "float16"),
        weight: T.Tensor((N, K), "float16"),
        bias: T.Tensor((N,), "float16"),
        y: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, BLOCK_N), T.ceildiv(M, BLOCK_M), threads=THREADS) as (bx, by):
            x_shared = T.alloc_shared((BLOCK_M, BLOCK_K), "float16")
            w_shared = T.alloc_shared((BLOCK_N, BLOCK_K), "float16")
            bias_local = T.alloc_fragment((BLOCK_N,), "float16")
            acc = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            T.clear(acc)
            for ko in T.Pipelined(0, T.ceildiv(K, BLOCK_K), num_stages=NUM_STAGES):
                T.copy(x[by * BLOCK_M, ko * BLOCK_K], x_shared)
                T.copy(weight[bx * BLOCK_N, ko * BLOCK_K], w_shared)
                T.gemm(x_shared, w_shared, acc, transpose_B=True)
            T.copy(bias[bx * BLOCK_N], bias_local)
            for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                acc[i, j] += bias_local[j]
            for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                acc[i, j] = acc[i, j] / (1.0 + T.exp(-acc[i, j]))
            T.copy(acc, y[by * BLOCK_M, bx * BLOCK_N])

    return tilelang.compile(linear_silu, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, K = x.shape
        N = self.linear.out_features
        return build(M, N, K)(x.contiguous(), self.linear.weight, self.linear.bias)
