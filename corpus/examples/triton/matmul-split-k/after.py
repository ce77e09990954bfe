"""Matrix product C = A B in fp16: SPLIT_K programs per tile of C, each over a part of K, then a sum of the parts.

A small C has too few tiles to occupy the GPU, however long K is; cutting K makes SPLIT_K times as many programs.
The parts are kept in fp32 and added by a second kernel in a fixed order, so results do not vary from run to run.
No help where C alone has enough tiles for all multiprocessors: then the parts only add memory traffic.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_M = 64
BLOCK_N = 64
BLOCK_K = 64
SPLIT_K = 32
BLOCK_SUM = 512
NUM_WARPS = 4
NUM_STAGES = 3

SEARCH_SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [64, 128],
    "SPLIT_K": [8, 16, 32, 64],
    "NUM_STAGES": [3, 4],
}
CONSTRAINTS = ["(BLOCK_M + BLOCK_N) * BLOCK_K * 2 * NUM_STAGES <= 227 * 1024"]


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    partial_ptr,
    M,
    N,
    K,
    k_per_split,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # 64-bit indices: the offset of an element can exceed 2^31 in a large matrix.
    offs_m = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    offs_n = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    offs_k = tl.arange(0, BLOCK_K)
    mask_m = offs_m[:, None] < M
    mask_n = offs_n[None, :] < N
    split = tl.program_id(2).to(tl.int64)
    k_start = split * k_per_split
    k_length = min(K - k_start, k_per_split)

    a_ptrs = a_ptr + offs_m[:, None] * K + k_start + offs_k[None, :]
    b_ptrs = b_ptr + (k_start + offs_k[:, None]) * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, k_length, BLOCK_K):
        a = tl.load(a_ptrs, mask=mask_m & (offs_k[None, :] < k_length - k), other=0.0)
        b = tl.load(b_ptrs, mask=mask_n & (offs_k[:, None] < k_length - k), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N

    partial_ptrs = partial_ptr + split * M * N + offs_m[:, None] * N + offs_n[None, :]
    tl.store(partial_ptrs, acc, mask=mask_m & mask_n)


@triton.jit
def sum_kernel(partial_ptr, c_ptr, numel, SPLIT_K: tl.constexpr, BLOCK_SUM: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK_SUM + tl.arange(0, BLOCK_SUM)
    mask = offs < numel
    acc = tl.zeros((BLOCK_SUM,), dtype=tl.float32)
    partial_ptrs = partial_ptr + offs
    # Always in the same order, so that the same inputs give the same bits.
    for _ in tl.static_range(SPLIT_K):
        acc += tl.load(partial_ptrs, mask=mask, other=0.0)
        partial_ptrs += numel
    tl.store(c_ptr + offs, acc.to(tl.float16), mask=mask)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        A, B = A.contiguous(), B.contiguous()
        M, K = A.shape
        N = B.shape[1]
        C = torch.empty((M, N), device=A.device, dtype=A.dtype)
        partial = torch.empty((SPLIT_K, M, N), device=A.device, dtype=torch.float32)
        k_per_split = triton.cdiv(triton.cdiv(K, BLOCK_K), SPLIT_K) * BLOCK_K
        grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), SPLIT_K)
        matmul_kernel[grid](
            A,
            B,
            partial,
            M,
            N,
            K,
            k_per_split,
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            BLOCK_K=BLOCK_K,
            num_warps=NUM_WARPS,
            num_stages=NUM_STAGES,
        )
        numel = C.numel()
        blocks = (triton.cdiv(numel, BLOCK_SUM),)
        sum_kernel[blocks](partial, C, numel, SPLIT_K=SPLIT_K, BLOCK_SUM=BLOCK_SUM, num_warps=NUM_WARPS)
        return C
