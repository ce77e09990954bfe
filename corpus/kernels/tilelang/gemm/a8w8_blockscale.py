"""
Problem Name: gemm/a8w8_blockscale

Product of fp8 A (M, K) and fp8 B (N, K) with a scale for each 1x128 block of A and each 128x128 block of B, in
TileLang: the tensor cores multiply one tile of K, whose sum is scaled and added in fp32 registers. Copies run ahead in
NUM_STAGES buffers, GROUP_SIZE_M rows of tiles run together. SPLIT_K cuts the loop over K into parts that a second
kernel adds in a fixed order. POLICY is how the warps share a tile.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_SIZE_M = 64
BLOCK_SIZE_N = 128
BLOCK_SIZE_K = 128
GROUP_SIZE_M = 8
SPLIT_K = 1
NUM_WARPS = 4
NUM_STAGES = 4
POLICY = "Square"

SEARCH_SPACE = {
    "BLOCK_SIZE_M": [64, 128],
    "BLOCK_SIZE_N": [32, 64, 128, 256],
    "BLOCK_SIZE_K": [64, 128],
    "GROUP_SIZE_M": [1, 8, 16, 32],
    "SPLIT_K": [1, 2, 4, 8],
    "NUM_WARPS": [4, 8],
    "NUM_STAGES": [2, 3, 4, 5],
    "POLICY": ["Square", "FullRow", "FullCol"],
}
CONSTRAINTS = [
    "SPLIT_K == 1 or SPLIT_K * 128 <= K",
    "GROUP_SIZE_M == 1 or (BLOCK_SIZE_M < M and (GROUP_SIZE_M == 8 or GROUP_SIZE_M * BLOCK_SIZE_M < 2 * M))",
    "BLOCK_SIZE_M <= 64 or BLOCK_SIZE_M < 2 * M",
    # The tile's sum and the total are both in registers.
    "BLOCK_SIZE_M * BLOCK_SIZE_N <= 96 * 32 * NUM_WARPS",
]

BLOCK = 128
BLOCK_SUM = 1024
OUT = "bfloat16"


@functools.lru_cache
def build(M, N, K):
    # Parts are whole numbers of tiles; tiles past the end of K are read as zeros.
    steps = -(-K // (BLOCK_SIZE_K * SPLIT_K))
    blocks_n, blocks_k = -(-N // BLOCK), -(-K // BLOCK)
    policy = T.GemmWarpPolicy[POLICY]

    @T.prim_func
    def blockscale(
        A: T.Tensor((M, K), "float8_e4m3fn"),
        B: T.Tensor((N, K), "float8_e4m3fn"),
        As: T.Tensor((M, blocks_k), "float32"),
        Bs: T.Tensor((blocks_n, blocks_k), "float32"),
        C: T.Tensor((SPLIT_K, M, N), "float32" if SPLIT_K > 1 else OUT),
    ):
        with T.Kernel(
            T.ceildiv(N, BLOCK_SIZE_N), T.ceildiv(M, BLOCK_SIZE_M), SPLIT_K, threads=32 * NUM_WARPS
        ) as (bx, by, bz):  # fmt: skip
            A_shared = T.alloc_shared((BLOCK_SIZE_M, BLOCK_SIZE_K), "float8_e4m3fn")
            B_shared = T.alloc_shared((BLOCK_SIZE_N, BLOCK_SIZE_K), "float8_e4m3fn")
            scales = T.alloc_shared((BLOCK_SIZE_M,), "float32")
            scale = T.alloc_fragment((BLOCK_SIZE_M,), "float32")
            part = T.alloc_fragment((BLOCK_SIZE_M, BLOCK_SIZE_N), "float32")
            acc = T.alloc_fragment((BLOCK_SIZE_M, BLOCK_SIZE_N), "float32")
            T.use_swizzle(GROUP_SIZE_M, order="row", enable=GROUP_SIZE_M > 1)
            T.clear(acc)
            for ko in T.Pipelined(steps, num_stages=NUM_STAGES):
                k = (bz * steps + ko) * BLOCK_SIZE_K
                # Parts of K that end beyond it have no scale of their own: their operands are zero, any scale serves.
                block = T.min(k // BLOCK, blocks_k - 1)
                T.copy(A[by * BLOCK_SIZE_M, k], A_shared)
                T.copy(B[bx * BLOCK_SIZE_N, k], B_shared)
                for i in T.Parallel(BLOCK_SIZE_M):
                    scales[i] = As[T.min(by * BLOCK_SIZE_M + i, M - 1), block]
                # Read before the product: after it the buffers of the stage belong to the copies again.
                T.copy(scales, scale)
                T.gemm(A_shared, B_shared, part, transpose_B=True, policy=policy, clear_accum=True)
                for i, j in T.Parallel(BLOCK_SIZE_M, BLOCK_SIZE_N):
                    column = T.min((bx * BLOCK_SIZE_N + j) // BLOCK, blocks_n - 1)
                    acc[i, j] += part[i, j] * scale[i] * Bs[column, block]
            T.copy(acc, C[bz, by * BLOCK_SIZE_M, bx * BLOCK_SIZE_N])

    return tilelang.compile(blockscale, out_idx=[-1], target=TARGET)


@functools.lru_cache
def build_sum(size):
    @T.prim_func
    def sum_parts(parts: T.Tensor((SPLIT_K, size), "float32"), C: T.Tensor((size,), OUT)):
        with T.Kernel(T.ceildiv(size, BLOCK_SUM), threads=128) as bx:
            part = T.alloc_fragment((BLOCK_SUM,), "float32")
            total = T.alloc_fragment((BLOCK_SUM,), "float32")
            T.clear(total)
            # In a fixed order, so that the same inputs give the same bits.
            for split in T.unroll(SPLIT_K):
                T.copy(parts[split, bx * BLOCK_SUM], part)
                for i in T.Parallel(BLOCK_SUM):
                    total[i] += part[i]
            T.copy(total, C[bx * BLOCK_SUM])

    return tilelang.compile(sum_parts, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor) -> torch.Tensor:
        M, K = A.shape
        N = B.shape[0]
        C = build(M, N, K)(A.contiguous(), B.contiguous(), As.contiguous(), Bs.contiguous())
        return C.view(M, N) if SPLIT_K == 1 else build_sum(M * N)(C.view(SPLIT_K, M * N)).view(M, N)
