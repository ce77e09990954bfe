"""Attention by three warp groups: two take turns at the tensor cores, the third loads keys and values ahead of them.

As in FlashAttention-3 (Shah et al., 2024): a consumer issues the product of its rows with the next tile of keys and
that of the present probabilities with their values, hands the turn over, and computes its softmax under the other's
products. Sequence lengths may be any.
"""

import functools
import math

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

# Keys of a tile, and how many tiles are kept: as many are loaded ahead.
BLOCK_N = 128
STAGES = 2

# Registers of a thread; those of the three groups together may be 504, three times what 384 threads start with.
PRODUCER_REGS = 24
CONSUMER_REGS = 240

SEARCH_SPACE = {"BLOCK_N": [64, 96, 128, 160, 176], "STAGES": [1, 2, 3], "CONSUMER_REGS": [216, 232, 240]}
CONSTRAINTS = ["256 * head_dim + 2 * STAGES * BLOCK_N * (head_dim + head_dim_kv) <= 231424"]

ROWS = 64
"""Queries of one consumer: those of one instruction."""
TURNS = 8
"""The first of the two named barriers that pass the turn; TileLang itself counts up from 3."""


@functools.lru_cache
def build_attention(B, H, HK, SQ, SK, D, DV, causal, dtype):
    # exp(x) = exp2(x log2 e): the scale takes the factor in, and the hardware has exp2.
    factor = math.log2(math.e) / math.sqrt(D)
    policy = T.GemmWarpPolicy.FullRow

    @T.macro
    def softmax(s, p_max, row_max, scale, tile_sum, row_sum, block, first):
        # Only tiles at the end, or on the diagonal, hold keys that are masked.
        if (block + 1) * BLOCK_N > (T.min(SK, first + 1) if causal else SK):
            for i, j in T.Parallel(ROWS, BLOCK_N):
                last = T.min(SK - 1, first + i) if causal else SK - 1
                s[i, j] = T.if_then_else(block * BLOCK_N + j <= last, s[i, j], -T.infinity("float32"))
        T.copy(row_max, p_max)
        T.reduce_max(s, row_max, dim=1, clear=False)
        for i in T.Parallel(ROWS):
            scale[i] = T.exp2((p_max[i] - row_max[i]) * factor)
        for i, j in T.Parallel(ROWS, BLOCK_N):
            s[i, j] = T.exp2(s[i, j] * factor - row_max[i] * factor)
        T.reduce_sum(s, tile_sum, dim=1)
        for i in T.Parallel(ROWS):
            row_sum[i] = row_sum[i] * scale[i] + tile_sum[i]

    @T.macro
    def consume(group, first, q_shared, tiles, full, empty, y, blocks, head, batch):
        k_shared, v_shared = tiles
        q_full, k_full, v_full = full
        k_empty, v_empty = empty
        s = T.alloc_fragment((ROWS, BLOCK_N), "float32")
        p = T.alloc_fragment((ROWS, BLOCK_N), dtype)
        acc = T.alloc_fragment((ROWS, DV), "float32")
        row_max = T.alloc_fragment((ROWS,), "float32")
        p_max = T.alloc_fragment((ROWS,), "float32")
        scale = T.alloc_fragment((ROWS,), "float32")
        tile_sum = T.alloc_fragment((ROWS,), "float32")
        row_sum = T.alloc_fragment((ROWS,), "float32")
        T.set_max_nreg(CONSUMER_REGS, 1)
        T.clear(acc)
        T.clear(row_sum)
        T.fill(row_max, -T.infinity("float32"))
        T.barrier_wait(q_full[group], 0)
        # The second group has its first turn after the first group's first product.
        if group == 1:
            T.sync_threads(TURNS + 1, 256)
        T.barrier_wait(k_full[0], 0)
        T.wgmma_gemm(q_shared, k_shared[0, :, :], s, transpose_B=True, policy=policy, clear_accum=True)
        T.named_barrier_arrive(TURNS + 1 - group, 256)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(s, num_regs=ROWS * BLOCK_N // 128)
        T.barrier_arrive(k_empty[0])
        softmax(s, p_max, row_max, scale, tile_sum, row_sum, 0, first)
        T.copy(s, p)
        for block in T.serial(1, blocks):
            T.sync_threads(TURNS + group, 256)
            T.barrier_wait(k_full[block % STAGES], block // STAGES % 2)
            T.wgmma_gemm(q_shared, k_shared[block % STAGES, :, :], s, transpose_B=True, policy=policy, clear_accum=True)
            T.barrier_wait(v_full[(block - 1) % STAGES], (block - 1) // STAGES % 2)
            T.wgmma_gemm(p, v_shared[(block - 1) % STAGES, :, :], acc, policy=policy)
            T.named_barrier_arrive(TURNS + 1 - group, 256)
            T.wait_wgmma(1)
            T.warpgroup_fence_operand(s, num_regs=ROWS * BLOCK_N // 128)
            T.barrier_arrive(k_empty[block % STAGES])
            softmax(s, p_max, row_max, scale, tile_sum, row_sum, block, first)
            T.wait_wgmma(0)
            T.warpgroup_fence_operand(acc, num_regs=ROWS * DV // 128)
            T.barrier_arrive(v_empty[(block - 1) % STAGES])
            for i, j in T.Parallel(ROWS, DV):
                acc[i, j] *= scale[i]
            T.copy(s, p)
        T.barrier_wait(v_full[(blocks - 1) % STAGES], (blocks - 1) // STAGES % 2)
        T.wgmma_gemm(p, v_shared[(blocks - 1) % STAGES, :, :], acc, policy=policy)
        # The first group takes the last turn that the second one has passed on, so that each barrier ends as it began.
        if group == 0:
            T.sync_threads(TURNS, 256)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(acc, num_regs=ROWS * DV // 128)
        for i, j in T.Parallel(ROWS, DV):
            acc[i, j] = acc[i, j] / row_sum[i]
        T.copy(acc, y[batch, head, first, 0])

    @T.prim_func
    def attention(
        q: T.Tensor((B, H, SQ, D), dtype),
        k: T.Tensor((B, HK, SK, D), dtype),
        v: T.Tensor((B, HK, SK, DV), dtype),
        y: T.Tensor((B, H, SQ, DV), dtype),
    ):
        with T.Kernel(T.ceildiv(SQ, 2 * ROWS), H, B, threads=384) as (bx, head, batch):
            q_first = T.alloc_shared((ROWS, D), dtype)
            q_second = T.alloc_shared((ROWS, D), dtype)
            k_shared = T.alloc_shared((STAGES, BLOCK_N, D), dtype)
            v_shared = T.alloc_shared((STAGES, BLOCK_N, DV), dtype)
            # Each thread of the producer arrives, and the bytes of the tile; then each thread of both consumers.
            q_full = T.alloc_barrier([128, 128])
            k_full = T.alloc_barrier([128] * STAGES)
            v_full = T.alloc_barrier([128] * STAGES)
            k_empty = T.alloc_barrier([256] * STAGES)
            v_empty = T.alloc_barrier([256] * STAGES)
            row = bx * 2 * ROWS
            blocks = T.ceildiv(T.min(SK, row + 2 * ROWS) if causal else SK, BLOCK_N)
            tiles, full, empty = (k_shared, v_shared), (q_full, k_full, v_full), (k_empty, v_empty)
            # One if with all roles: the registers can then be moved, and no barrier of all threads stands between.
            thread = T.get_thread_binding()
            if thread < 128:
                T.set_max_nreg(PRODUCER_REGS, 0)
                T.tma_copy(q[batch, head, row, 0], q_first, barrier=q_full[0])
                T.barrier_arrive(q_full[0])
                T.tma_copy(q[batch, head, row + ROWS, 0], q_second, barrier=q_full[1])
                T.barrier_arrive(q_full[1])
                for block in T.serial(blocks):
                    T.barrier_wait(k_empty[block % STAGES], (block // STAGES + 1) % 2)
                    T.tma_copy(
                        k[batch, head // (H // HK), block * BLOCK_N, 0], k_shared[block % STAGES, :, :],
                        barrier=k_full[block % STAGES],
                    )  # fmt: skip
                    T.barrier_arrive(k_full[block % STAGES])
                    T.barrier_wait(v_empty[block % STAGES], (block // STAGES + 1) % 2)
                    T.tma_copy(
                        v[batch, head // (H // HK), block * BLOCK_N, 0], v_shared[block % STAGES, :, :],
                        barrier=v_full[block % STAGES],
                    )  # fmt: skip
                    T.barrier_arrive(v_full[block % STAGES])
            elif thread < 256:
                consume(0, row, q_first, tiles, full, empty, y, blocks, head, batch)
            else:
                consume(1, row + ROWS, q_second, tiles, full, empty, y, blocks, head, batch)

    return tilelang.compile(attention, out_idx=[-1], target=TARGET, pass_configs={"tl.enable_fast_math": True})


class ModelNew(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        B, H, SQ, D = q.shape
        _, HK, SK, DV = v.shape
        kernel = build_attention(B, H, HK, SQ, SK, D, DV, self.causal, str(q.dtype).removeprefix("torch."))
        return kernel(q.contiguous(), k.contiguous(), v.contiguous())
