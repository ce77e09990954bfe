"""Matrix product C = A B in fp32 as three bf16 products on the tensor cores, accumulated in fp32.

Each value is split into two bf16, hi = bf16(x) and lo = bf16(x - hi); lo hi + hi lo + hi hi leaves out only lo lo. bf16
has the range of fp32, so that no scaling is needed, and three products of it cost less than three of TF32. One bf16 or
TF32 product alone is too coarse for fp32, and so is a long sum on tensor cores: each step has a sum of its own, which
is added in fp32. The tiles are split after each load, so that every block repeats that.
No help where the products are small beside the bytes, or where results must agree with fp32 in the last bit.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 32
NUM_WARPS = 8
NUM_STAGES = 3

SEARCH_SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [16, 32],
    "NUM_WARPS": [4, 8],
    "NUM_STAGES": [2, 3, 4],
}
CONSTRAINTS = [
    "BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 64",
    "(BLOCK_M + BLOCK_N) * BLOCK_K * (4 * NUM_STAGES + 4) <= 227 * 1024",
]


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
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

    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None].to(tl.int64) * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=mask_m & (offs_k[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=mask_n & (offs_k[:, None] < K - k), other=0.0)
        # hi + lo has 16 bits of the mantissa; lo * lo is below the rounding of the rest.
        a_hi = a.to(tl.bfloat16)
        a_lo = (a - a_hi.to(tl.float32)).to(tl.bfloat16)
        b_hi = b.to(tl.bfloat16)
        b_lo = (b - b_hi.to(tl.float32)).to(tl.bfloat16)
        acc += tl.dot(a_hi, b_hi, tl.dot(a_hi, b_lo, tl.dot(a_lo, b_hi)))
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N

    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(c_ptrs, acc, mask=mask_m & mask_n)


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        A, B = A.contiguous(), B.contiguous()
        M, K = A.shape
        N = B.shape[1]
        C = torch.empty((M, N), device=A.device, dtype=A.dtype)
        grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
        matmul_kernel[grid](
            A,
            B,
            C,
            M,
            N,
            K,
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            BLOCK_K=BLOCK_K,
            num_warps=NUM_WARPS,
            num_stages=NUM_STAGES,
        )
        return C
