"""
Problem Name: gemm/moe

Mixture of experts as vLLM's fused_moe: the (token, expert) pairs are sorted by expert, each expert's padded to whole
blocks of BLOCK_SIZE_M rows, so that a block of rows meets the weights of one expert only. One product for gate and
factor, SiLU, the second product, and the sum over a token's experts with the router's weights. Both products run with
the same config, as one entry of an engine's file serves both. Weights in fp8 have a scale for each 128x128: what they
multiply is rounded to fp8 with a scale for each 1x128, and each block of K is multiplied on its own and scaled.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK_SIZE_M = 64
BLOCK_SIZE_N = 128
BLOCK_SIZE_K = 64
GROUP_SIZE_M = 8
NUM_WARPS = 8
NUM_STAGES = 3

SEARCH_SPACE = {
    "BLOCK_SIZE_M": [16, 32, 64, 128, 256],
    "BLOCK_SIZE_N": [32, 64, 128, 256],
    "BLOCK_SIZE_K": [32, 64, 128],
    "GROUP_SIZE_M": [1, 8, 16, 32, 64],
    "NUM_WARPS": [4, 8],
    "NUM_STAGES": [2, 3, 4, 5],
}
CONSTRAINTS = [
    "BLOCK_SIZE_M <= 128 or BLOCK_SIZE_N <= 128",
    "BLOCK_SIZE_M <= 16 or BLOCK_SIZE_M < 2 * M",
]

BLOCK_PAIRS = 1024
BLOCK_COLUMNS = 512
BLOCK = 128
LEAST = 1e-10


@triton.jit
def count_kernel(ids_ptr, counts_ptr, pairs, BLOCK_PAIRS: tl.constexpr):
    expert = tl.program_id(0)
    count = tl.zeros((BLOCK_PAIRS,), dtype=tl.int32)
    for start in range(0, pairs, BLOCK_PAIRS):
        offs = start + tl.arange(0, BLOCK_PAIRS)
        count += (tl.load(ids_ptr + offs, mask=offs < pairs, other=-1) == expert).to(tl.int32)
    tl.store(counts_ptr + expert, tl.sum(count, 0))


@triton.jit
def sort_kernel(
    ids_ptr, counts_ptr, sorted_ptr, experts_ptr, padded_ptr, pairs, experts,
    BLOCK_M: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_PAIRS: tl.constexpr,
):  # fmt: skip
    # A program per expert, without atomics: the order is the same in each run.
    expert = tl.program_id(0)
    offs_e = tl.arange(0, BLOCK_E)
    counts = tl.load(counts_ptr + offs_e, mask=offs_e < experts, other=0)
    blocks = (counts + BLOCK_M - 1) // BLOCK_M
    first = tl.sum(tl.where(offs_e < expert, blocks, 0), 0)
    own = tl.sum(tl.where(offs_e == expert, blocks, 0), 0)
    if expert == 0:
        tl.store(padded_ptr, tl.sum(blocks, 0) * BLOCK_M)
    for block in range(first, first + own):
        tl.store(experts_ptr + block, expert)
    placed = first * BLOCK_M
    for start in range(0, pairs, BLOCK_PAIRS):
        offs = start + tl.arange(0, BLOCK_PAIRS)
        mine = (tl.load(ids_ptr + offs, mask=offs < pairs, other=-1) == expert).to(tl.int32)
        tl.store(sorted_ptr + placed + tl.cumsum(mine, 0) - 1, offs, mask=mine > 0)
        placed += tl.sum(mine, 0)
    # The rest of the last block names no pair.
    offs = placed + tl.arange(0, BLOCK_M)
    tl.store(sorted_ptr + offs, tl.full((BLOCK_M,), 0, tl.int32) + pairs, mask=offs < (first + own) * BLOCK_M)


@triton.jit
def place(tile, grid_m, grid_n, GROUP_M: tl.constexpr):
    # Rows run first within a group of GROUP_M rows of tiles.
    first = tile // (GROUP_M * grid_n) * GROUP_M
    rows = min(grid_m - first, GROUP_M)
    within = tile % (GROUP_M * grid_n)
    return first + within % rows, within // rows


@triton.jit
def round_kernel(x_ptr, out_ptr, scales_ptr, K, LIMIT: tl.constexpr, LEAST: tl.constexpr, SCALED: tl.constexpr):
    # A program per 1x128: divided as PyTorch divides, since quotients often lie between two fp8 values.
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    offs = block * SCALED + tl.arange(0, SCALED)
    x = tl.load(x_ptr + row * K + offs, mask=offs < K, other=0.0).to(tl.float32)
    scale = tl.div_rn(tl.maximum(tl.max(tl.abs(x), 0), LEAST), LIMIT)
    scaled = tl.minimum(tl.maximum(tl.div_rn(x, scale), -LIMIT), LIMIT)
    tl.store(out_ptr + row * K + offs, scaled.to(out_ptr.dtype.element_ty), mask=offs < K)
    tl.store(scales_ptr + row * tl.num_programs(1) + block, scale)


@triton.jit
def expert_kernel(
    a_ptr, b_ptr, c_ptr, as_ptr, bs_ptr, sorted_ptr, experts_ptr, padded_ptr, pairs, blocks_m, N, K, k_steps,
    SHARED: tl.constexpr, EVEN_K: tl.constexpr, SCALED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    block_m, block_n = place(tl.program_id(0), blocks_m, tl.cdiv(N, BLOCK_N), GROUP_M)
    # The grid is as large as any routing needs.
    if block_m * BLOCK_M >= tl.load(padded_ptr):
        return
    pair = tl.load(sorted_ptr + block_m * BLOCK_M + tl.arange(0, BLOCK_M))
    valid = pair < pairs
    expert = tl.load(experts_ptr + block_m).to(tl.int64)
    # SHARED pairs have one row of A.
    offs_a = (pair // SHARED).to(tl.int64)
    offs_n = ((block_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N).to(tl.int64)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_a[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + expert * N * K + offs_k[:, None] + offs_n[None, :] * K
    if SCALED:
        as_ptrs = as_ptr + offs_a * tl.cdiv(K, SCALED)
        # One scale of B holds for a tile that is not wider than its block.
        offs_s = offs_n // SCALED if BLOCK_N > SCALED else block_n * BLOCK_N // SCALED
        bs_ptrs = bs_ptr + (expert * tl.cdiv(N, SCALED) + offs_s) * tl.cdiv(K, SCALED)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # A way around the loop, where zeros meet its results, makes ptxas of Triton 3.6 wait for each product by itself.
    tl.assume(k_steps > 0)
    for step in range(0, k_steps):
        if EVEN_K:
            a = tl.load(a_ptrs, mask=valid[:, None], other=0.0)
            b = tl.load(b_ptrs)
        else:
            within = offs_k < K - step * BLOCK_K
            a = tl.load(a_ptrs, mask=valid[:, None] & within[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=within[:, None], other=0.0)
        if SCALED:
            # Requested before the product, so that they arrive while it runs: the compiler waits for each product.
            block = step * BLOCK_K // SCALED
            a_scales = tl.load(as_ptrs + block, mask=valid, other=0.0)[:, None]
            b_scales = tl.load(bs_ptrs + block)
            if BLOCK_N > SCALED:
                acc += tl.dot(a, b) * a_scales * b_scales[None, :]
            else:
                acc += tl.dot(a, b) * (a_scales * b_scales)
        else:
            acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    columns = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + pair[:, None].to(tl.int64) * N + columns[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=valid[:, None] & (columns[None, :] < N))


@triton.jit
def silu_kernel(up_ptr, out_ptr, N, BLOCK_COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    mask = offs < N
    gate = tl.load(up_ptr + row * 2 * N + offs, mask=mask).to(tl.float32)
    factor = tl.load(up_ptr + row * 2 * N + N + offs, mask=mask).to(tl.float32)
    # Rounded twice, as PyTorch and the engines round.
    silu = (gate * tl.sigmoid(gate)).to(out_ptr.dtype.element_ty).to(tl.float32)
    tl.store(out_ptr + row * N + offs, (silu * factor).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def sum_kernel(parts_ptr, weights_ptr, out_ptr, K, TOP_K: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    mask = offs < K
    acc = tl.zeros((BLOCK_COLUMNS,), dtype=tl.float32)
    for part in tl.static_range(TOP_K):
        pair = row * TOP_K + part
        acc += tl.load(weights_ptr + pair) * tl.load(parts_ptr + pair * K + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + row * K + offs, acc.to(out_ptr.dtype.element_ty), mask=mask)


def sort_by_expert(ids, experts):
    pairs = ids.numel()
    used = min(experts, pairs)
    blocks = used + (pairs - used) // BLOCK_SIZE_M
    counts = torch.empty(experts, device=ids.device, dtype=torch.int32)
    order = torch.empty(blocks * BLOCK_SIZE_M, device=ids.device, dtype=torch.int32)
    owners = torch.empty(blocks, device=ids.device, dtype=torch.int32)
    padded = torch.empty(1, device=ids.device, dtype=torch.int32)
    count_kernel[(experts,)](ids, counts, pairs, BLOCK_PAIRS=BLOCK_PAIRS)
    sort_kernel[(experts,)](
        ids, counts, order, owners, padded, pairs, experts, BLOCK_M=BLOCK_SIZE_M,
        BLOCK_E=triton.next_power_of_2(experts), BLOCK_PAIRS=BLOCK_PAIRS,
    )  # fmt: skip
    return order, owners, padded


def rounded(rows):
    """Return fp8 rows, and a scale for each 1x128 of them."""
    count, K = rows.shape
    found = torch.empty_like(rows, dtype=torch.float8_e4m3fn)
    scales = torch.empty((count, triton.cdiv(K, BLOCK)), device=rows.device, dtype=torch.float32)
    round_kernel[scales.shape](
        rows, found, scales, K, LIMIT=torch.finfo(found.dtype).max, LEAST=LEAST, SCALED=BLOCK, num_warps=1
    )
    return found, scales


def multiply(A, B, scales, shared, sorting, pairs):
    _, N, K = B.shape
    C = torch.empty((pairs, N), device=A.device, dtype=A.dtype)
    A, a_scales = (A, None) if scales is None else rounded(A)
    blocks = sorting[1].numel()
    expert_kernel[(blocks * triton.cdiv(N, BLOCK_SIZE_N),)](
        A, B, C, a_scales, scales, *sorting, pairs, blocks, N, K, triton.cdiv(K, BLOCK_SIZE_K),
        SHARED=shared, EVEN_K=K % BLOCK_SIZE_K == 0, SCALED=0 if scales is None else BLOCK,
        BLOCK_M=BLOCK_SIZE_M, BLOCK_N=BLOCK_SIZE_N, BLOCK_K=BLOCK_SIZE_K, GROUP_M=GROUP_SIZE_M,
        num_warps=NUM_WARPS, num_stages=NUM_STAGES,
    )  # fmt: skip
    return C


def fused_moe(x, w1, w2, weights, ids, w1_scale=None, w2_scale=None):
    x, weights, ids = x.contiguous(), weights.contiguous(), ids.contiguous()
    M, K = x.shape
    top_k, pairs, N = ids.shape[1], ids.numel(), w2.shape[2]
    sorting = sort_by_expert(ids, w1.shape[0])
    up = multiply(x, w1, w1_scale, top_k, sorting, pairs)
    hidden = torch.empty((pairs, N), device=x.device, dtype=x.dtype)
    silu_kernel[(pairs, triton.cdiv(N, BLOCK_COLUMNS))](up, hidden, N, BLOCK_COLUMNS=BLOCK_COLUMNS)
    parts = multiply(hidden, w2, w2_scale, 1, sorting, pairs)
    out = torch.empty((M, K), device=x.device, dtype=x.dtype)
    sum_kernel[(M, triton.cdiv(K, BLOCK_COLUMNS))](parts, weights, out, K, TOP_K=top_k, BLOCK_COLUMNS=BLOCK_COLUMNS)
    return out


class ModelNew(nn.Module):
    def __init__(self, experts: int, width: int, hidden: int, dtype: str) -> None:
        super().__init__()
        kind = getattr(torch, dtype)
        self.w1 = nn.Parameter(torch.empty(experts, 2 * width, hidden, dtype=kind))
        self.w2 = nn.Parameter(torch.empty(experts, hidden, width, dtype=kind))
        self.w1_scale = self.w2_scale = None
        if kind.itemsize == 1:
            across, along = triton.cdiv(width, BLOCK), triton.cdiv(hidden, BLOCK)
            self.w1_scale = nn.Parameter(torch.empty(experts, triton.cdiv(2 * width, BLOCK), along))
            self.w2_scale = nn.Parameter(torch.empty(experts, along, across))

    def forward(self, x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return fused_moe(x, self.w1, self.w2, weights, ids, self.w1_scale, self.w2_scale)
