"""Attention in one kernel with an online softmax: each program keeps a tile of queries, walks over the keys and values
tile by tile, and rescales its output whenever a row's maximum grows. Scores live in registers only; before, the matrix
of all scores was written, read, written and read again. No help for a single query per head (decoding), where splitting
the keys over programs matters more, nor for a few dozen keys.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_M = 128
BLOCK_N = 128
NUM_WARPS = 8
NUM_STAGES = 2

SEARCH_SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "NUM_WARPS": [4, 8],
    "NUM_STAGES": [2, 3, 4],
}
CONSTRAINTS = ["BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 64", "BLOCK_M >= NUM_WARPS * 16"]


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    length,
    scale_log2,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head_start = tl.program_id(1).to(tl.int64) * length * HEAD_DIM
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    mask_m = offs_m[:, None] < length
    q = tl.load(q_ptr + head_start + offs_m[:, None] * HEAD_DIM + offs_d[None, :], mask=mask_m, other=0.0)

    row_max = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    row_sum = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        kv_offs = head_start + offs_n[:, None] * HEAD_DIM + offs_d[None, :]
        mask_n = offs_n[:, None] < length
        k = tl.load(k_ptr + kv_offs, mask=mask_n, other=0.0)
        # In units of log2, so that exp2, which the hardware has, needs no further product.
        s = tl.dot(q, tl.trans(k)) * scale_log2
        s = tl.where(offs_n[None, :] < length, s, -float("inf"))
        # Every tile holds at least one key, so the new maximum is finite.
        new_max = tl.maximum(row_max, tl.max(s, axis=1))
        p = tl.exp2(s - new_max[:, None])
        shrink = tl.exp2(row_max - new_max)
        row_sum = row_sum * shrink + tl.sum(p, axis=1)
        v = tl.load(v_ptr + kv_offs, mask=mask_n, other=0.0)
        acc = tl.dot(p.to(tl.float16), v, acc * shrink[:, None])
        row_max = new_max

    o_ptrs = o_ptr + head_start + offs_m[:, None] * HEAD_DIM + offs_d[None, :]
    tl.store(o_ptrs, (acc / row_sum[:, None]).to(tl.float16), mask=mask_m)


class ModelNew(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch_size, n_heads, length, head_dim = q.shape
        o = torch.empty_like(q)
        log2_e = 1.4426950408889634
        grid = (triton.cdiv(length, BLOCK_M), batch_size * n_heads)
        attention_kernel[grid](
            q,
            k,
            v,
            o,
            length,
            head_dim**-0.5 * log2_e,
            HEAD_DIM=head_dim,
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            num_warps=NUM_WARPS,
            num_stages=NUM_STAGES,
        )
        return o
