"""Attention whose loop runs as a modulo schedule says: each operation has a cycle, the loop an interval.

Order in the body is the cycle modulo the interval, the pipeline stage the cycle divided by it. Sequence lengths may be
any: keys past the end, and after the query where it is causal, start from -inf.
"""

import functools
import math

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_M = 128
BLOCK_N = 128
THREADS = 256

# Cycles of the model; K and V are loaded one iteration ahead.
INTERVAL = 40
COPY_K = 24
QK = 40
ROW_MAX = 49
SCALE = 67
EXP = 51
ROW_SUM = 72
CAST = 67
RESCALE = 71
COPY_V = 30
PV = 72

# Probabilities and scales through shared memory, which has versions: then RESCALE and PV may be a stage later.
P_SHARED = False

# TileLang's own pipelining of as many buffers instead of the cycles.
AUTOMATIC = False
NUM_STAGES = 2


def order_and_stage():
    """The position of each statement in the pipelined body, and its stage; in one cycle older iterations go first."""
    # Three have two statements: the mask and the product; the old maximum and the new one; a tile's sum and the total.
    statements = [COPY_K, QK, QK, ROW_MAX, ROW_MAX, SCALE, EXP, ROW_SUM, ROW_SUM, CAST, RESCALE, COPY_V, PV]
    first = min(statements) // INTERVAL
    stages = [cycle // INTERVAL - first for cycle in statements]
    order = sorted(range(len(statements)), key=lambda i: (statements[i] % INTERVAL, -stages[i], i))
    return [order.index(i) for i in range(len(statements))], stages


@functools.lru_cache
def build_attention(B, H, HK, SQ, SK, D, DV, causal, dtype):
    # exp(x) = exp2(x log2 e): the scale takes the factor in, and the hardware has exp2.
    factor = math.log2(math.e) / math.sqrt(D)
    order, stage = order_and_stage()
    how = {"num_stages": NUM_STAGES} if AUTOMATIC else {"order": order, "stage": stage}

    @T.prim_func
    def attention(
        q: T.Tensor((B, H, SQ, D), dtype),
        k: T.Tensor((B, HK, SK, D), dtype),
        v: T.Tensor((B, HK, SK, DV), dtype),
        y: T.Tensor((B, H, SQ, DV), dtype),
    ):
        with T.Kernel(T.ceildiv(SQ, BLOCK_M), H, B, threads=THREADS) as (bx, head, batch):
            q_shared = T.alloc_shared((BLOCK_M, D), dtype)
            k_shared = T.alloc_shared((BLOCK_N, D), dtype)
            v_shared = T.alloc_shared((BLOCK_N, DV), dtype)
            s = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            p = (T.alloc_shared if P_SHARED else T.alloc_fragment)((BLOCK_M, BLOCK_N), dtype)
            acc = T.alloc_fragment((BLOCK_M, DV), "float32")
            row_max = T.alloc_fragment((BLOCK_M,), "float32")
            old_max = T.alloc_fragment((BLOCK_M,), "float32")
            scale = (T.alloc_shared if P_SHARED else T.alloc_fragment)((BLOCK_M,), "float32")
            tile_sum = T.alloc_fragment((BLOCK_M,), "float32")
            row_sum = T.alloc_fragment((BLOCK_M,), "float32")
            T.copy(q[batch, head, bx * BLOCK_M, 0], q_shared)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            keys = T.min(SK, (bx + 1) * BLOCK_M) if causal else SK
            for block in T.Pipelined(T.ceildiv(keys, BLOCK_N), **how):
                T.copy(k[batch, head // (H // HK), block * BLOCK_N, 0], k_shared)
                for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                    last = T.min(SK - 1, bx * BLOCK_M + i) if causal else SK - 1
                    s[i, j] = T.if_then_else(block * BLOCK_N + j <= last, 0.0, -T.infinity("float32"))
                # Whole rows in one warp: maxima and sums then need no exchange between warps.
                T.gemm(q_shared, k_shared, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(row_max, old_max)
                T.reduce_max(s, row_max, dim=1, clear=False)
                for i in T.Parallel(BLOCK_M):
                    scale[i] = T.exp2((old_max[i] - row_max[i]) * factor)
                for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                    s[i, j] = T.exp2(s[i, j] * factor - row_max[i] * factor)
                T.reduce_sum(s, tile_sum, dim=1)
                for i in T.Parallel(BLOCK_M):
                    row_sum[i] = row_sum[i] * scale[i] + tile_sum[i]
                T.copy(s, p)
                for i, j in T.Parallel(BLOCK_M, DV):
                    acc[i, j] *= scale[i]
                T.copy(v[batch, head // (H // HK), block * BLOCK_N, 0], v_shared)
                T.gemm(p, v_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(BLOCK_M, DV):
                acc[i, j] = acc[i, j] / row_sum[i]
            T.copy(acc, y[batch, head, bx * BLOCK_M, 0])

    return tilelang.compile(attention, out_idx=[-1], target=TARGET)


class ModelNew(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        B, H, SQ, D = q.shape
        _, HK, SK, DV = v.shape
        kernel = build_attention(B, H, HK, SQ, SK, D, DV, self.causal, str(q.dtype).removeprefix("torch."))
        return kernel(q.contiguous(), k.contiguous(), v.contiguous())
