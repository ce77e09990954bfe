"""
Problem Name: attention/decoding

Attention of few queries to many keys. The queries of all heads that share keys are the rows of one tile, so that each
key is read once. SPLITS programs share the keys of a tile; each leaves its result and the logarithm of its sum of
exponentials, and a second kernel merges them, always in the same order.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_N = 64
SPLITS = 8
NUM_WARPS = 4
NUM_STAGES = 3

SEARCH_SPACE = {
    "BLOCK_N": [16, 32, 64, 128, 256],
    "SPLITS": [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128],
    "NUM_WARPS": [1, 2, 4, 8],
    "NUM_STAGES": [1, 2, 3, 4, 5, 6],
}
CONSTRAINTS = [
    # Each program has keys.
    "SPLITS == 1 or SPLITS * BLOCK_N < seq_len_k + BLOCK_N",
    "BLOCK_N >= 16 * NUM_WARPS or NUM_WARPS == 4",
]

MOST_ROWS = 64
MERGED_BY_WARP = 4096
"""Partial results that a warp of the second kernel has in registers."""


@triton.jit
def attend_part(
    q_ptr, k_ptr, v_ptr, y_ptr, parts_ptr, logs_ptr, rows, queries, keys, scale,
    SPLITS: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_DV: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(rows, BLOCK_M)
    group = (tl.program_id(0) // tiles).to(tl.int64)
    split = tl.program_id(1)
    row = tl.program_id(0) % tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)
    dv = tl.arange(0, BLOCK_DV)
    place = group * rows + row
    q = tl.load(q_ptr + place[:, None] * D + d[None, :], mask=(row < rows)[:, None] & (d < D)[None, :], other=0.0)
    # The newest position sees all keys, each one before it one key less.
    last = keys - queries + row % queries
    share = tl.cdiv(tl.cdiv(keys, BLOCK_N), SPLITS) * BLOCK_N
    begin = split * share
    end = tl.minimum(begin + share, keys)
    k_ptr += group * keys * D
    v_ptr += group * keys * DV
    most = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    for start in range(begin, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + key[None, :] * D + d[:, None], mask=(key < keys)[None, :] & (d < D)[:, None], other=0.0)
        scores = tl.dot(q, k, input_precision="ieee") * scale
        scores = tl.where(key[None, :] <= last[:, None], scores, float("-inf"))
        most_now = tl.maximum(most, tl.max(scores, 1))
        finite = tl.where(most_now == float("-inf"), 0.0, most_now)
        weights = tl.exp2(scores - finite[:, None])
        kept = tl.exp2(most - finite)
        total = total * kept + tl.sum(weights, 1)
        v = tl.load(v_ptr + key[:, None] * DV + dv[None, :], mask=(key < keys)[:, None] & (dv < DV)[None, :], other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * kept[:, None], input_precision="ieee")
        most = most_now
    acc /= tl.where(total == 0.0, 1.0, total)[:, None]
    mask = (row < rows)[:, None] & (dv < DV)[None, :]
    if SPLITS == 1:
        tl.store(y_ptr + place[:, None] * DV + dv[None, :], acc.to(y_ptr.dtype.element_ty), mask=mask)
    else:
        every = (tl.num_programs(0) // tiles).to(tl.int64) * rows
        part = split * every + place
        tl.store(parts_ptr + part[:, None] * DV + dv[None, :], acc, mask=mask)
        # Minus infinity where a part shows no key: it then counts nothing.
        tl.store(logs_ptr + part, most + tl.log2(total), mask=row < rows)


@triton.jit
def merge_parts(
    parts_ptr, logs_ptr, y_ptr, every, SPLITS: tl.constexpr, BLOCK_S: tl.constexpr, DV: tl.constexpr,
    BLOCK_DV: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, BLOCK_S)
    dv = tl.arange(0, BLOCK_DV)
    part = split.to(tl.int64) * every + row
    logs = tl.load(logs_ptr + part, mask=split < SPLITS, other=float("-inf"))
    most = tl.max(logs, 0)
    weights = tl.exp2(logs - tl.where(most == float("-inf"), 0.0, most))
    total = tl.sum(weights, 0)
    mask = (split < SPLITS)[:, None] & (dv < DV)[None, :]
    parts = tl.load(parts_ptr + part[:, None] * DV + dv[None, :], mask=mask, other=0.0)
    y = tl.sum(parts * weights[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(y_ptr + row * DV + dv, y.to(y_ptr.dtype.element_ty), mask=dv < DV)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        B, H, Q, D = q.shape
        _, HK, S, DV = v.shape
        # Heads that share keys are neighbours: their queries are rows one after the other.
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        rows, every = H // HK * Q, B * H * Q
        y = torch.empty(B, H, Q, DV, dtype=q.dtype, device=q.device)
        parts, logs = y, y
        if SPLITS > 1:
            parts = torch.empty(SPLITS, every, DV, dtype=torch.float32, device=q.device)
            logs = torch.empty(SPLITS, every, dtype=torch.float32, device=q.device)
        block_m = min(MOST_ROWS, max(16, triton.next_power_of_2(rows)))
        block_s = triton.next_power_of_2(SPLITS)
        block_d, block_dv = (max(16, triton.next_power_of_2(size)) for size in (D, DV))
        # exp(x) = exp2(x log2 e): the scale takes the factor in.
        attend_part[(B * HK * triton.cdiv(rows, block_m), SPLITS)](
            q, k, v, y, parts, logs, rows, Q, S, math.log2(math.e) / math.sqrt(D),
            SPLITS=SPLITS, D=D, DV=DV, BLOCK_D=block_d, BLOCK_DV=block_dv, BLOCK_M=block_m, BLOCK_N=BLOCK_N,
            num_warps=NUM_WARPS, num_stages=NUM_STAGES,
        )  # fmt: skip
        if SPLITS > 1:
            merge_parts[(every,)](
                parts, logs, y, every, SPLITS=SPLITS, BLOCK_S=block_s, DV=DV, BLOCK_DV=block_dv,
                num_warps=max(1, block_s * block_dv // MERGED_BY_WARP),
            )  # fmt: skip
        return y
