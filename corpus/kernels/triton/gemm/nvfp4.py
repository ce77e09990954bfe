"""
Problem Name: gemm/nvfp4

Product of NVFP4 A (M, K) and B (N, K), e2m1 in pairs with an e4m3 scale for each 16 along K, by the scaled products of
tensor cores (tl.dot_scaled): block-scaled tcgen05 on sm_100, block-scaled mma on sm_120. `alpha` multiplies the result.
Never run on a GPU.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_SIZE_M = 128
BLOCK_SIZE_N = 128
BLOCK_SIZE_K = 128
GROUP_SIZE_M = 8
NUM_WARPS = 4
NUM_STAGES = 3

SEARCH_SPACE = {
    "BLOCK_SIZE_M": [64, 128],
    "BLOCK_SIZE_N": [64, 128, 256],
    "BLOCK_SIZE_K": [128, 256],
    "GROUP_SIZE_M": [1, 8, 16],
    "NUM_WARPS": [4, 8],
    "NUM_STAGES": [2, 3, 4, 5],
}
CONSTRAINTS = [
    "GROUP_SIZE_M == 1 or BLOCK_SIZE_M < M",
]

SCALED = 16
OUT = "bfloat16"


@triton.jit
def nvfp4_kernel(
    a_ptr, b_ptr, as_ptr, bs_ptr, alpha_ptr, c_ptr, M, N, K,
    SCALED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    # Rows run first within a group of GROUP_M rows of tiles.
    tile = tl.program_id(0)
    grid_m = tl.cdiv(M, BLOCK_M)
    grid_n = tl.cdiv(N, BLOCK_N)
    first = tile // (GROUP_M * grid_n) * GROUP_M
    rows = min(grid_m - first, GROUP_M)
    within = tile % (GROUP_M * grid_n)
    off_m = (first + within % rows) * BLOCK_M
    off_n = within // rows * BLOCK_N
    # Rows and columns beyond the edges are read from the beginning, and not written.
    offs_m = ((off_m + tl.arange(0, BLOCK_M)) % M).to(tl.int64)
    offs_n = ((off_n + tl.arange(0, BLOCK_N)) % N).to(tl.int64)
    STORED: tl.constexpr = BLOCK_K // 2
    SCALES: tl.constexpr = BLOCK_K // SCALED
    stored_k = K // 2
    scales_k = K // SCALED
    offs_k = tl.arange(0, STORED)
    offs_s = tl.arange(0, SCALES)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        at, scale_at = step * STORED + offs_k, step * SCALES + offs_s
        a = tl.load(a_ptr + offs_m[:, None] * stored_k + at[None, :], mask=at[None, :] < stored_k, other=0)
        b = tl.load(b_ptr + at[:, None] + offs_n[None, :] * stored_k, mask=at[:, None] < stored_k, other=0)
        a_scales = tl.load(
            as_ptr + offs_m[:, None] * scales_k + scale_at[None, :], mask=scale_at[None, :] < scales_k, other=0.0
        )
        b_scales = tl.load(
            bs_ptr + offs_n[:, None] * scales_k + scale_at[None, :], mask=scale_at[None, :] < scales_k, other=0.0
        )
        acc = tl.dot_scaled(a, a_scales, "e2m1", b, b_scales, "e2m1", acc)
    acc *= tl.load(alpha_ptr)
    rows_c = (off_m + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = off_n + tl.arange(0, BLOCK_N)
    mask = (rows_c[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows_c[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


class ModelNew(nn.Module):
    def forward(self, A, B, As, Bs, alpha):
        A, B, As, Bs = A.contiguous(), B.contiguous(), As.contiguous(), Bs.contiguous()
        M, K, N = A.shape[0], A.shape[1] * 2, B.shape[0]
        C = torch.empty(M, N, device=A.device, dtype=getattr(torch, OUT))
        grid = (triton.cdiv(M, BLOCK_SIZE_M) * triton.cdiv(N, BLOCK_SIZE_N),)
        nvfp4_kernel[grid](
            A, B, As, Bs, alpha, C, M, N, K, SCALED=SCALED, BLOCK_M=BLOCK_SIZE_M, BLOCK_N=BLOCK_SIZE_N,
            BLOCK_K=BLOCK_SIZE_K, GROUP_M=GROUP_SIZE_M, num_warps=NUM_WARPS, num_stages=NUM_STAGES,
        )  # fmt: skip
        return C
