"""
Problem Name: gemm/a8w8_blockscale

Product of fp8 A (M, K) and fp8 B (N, K) with a scale for each 1x128 block of A and each 128x128 block of B: every
block of K is multiplied on its own, scaled, and added in fp32. A tile of 256 columns has two parts, each with products
and a scale of its own: one part is scaled while the other is multiplied, and their sums fit the registers. Tiles of C
stand in groups of rows, so that programs that run together share operands in L2. SPLIT_K cuts the loop over K into
parts that a second kernel adds in a fixed order. VARIANT is plain (one program per tile and part), persistent (one
program per multiprocessor), tma (persistent, with tensor descriptors), or tma_tile (the same with one program per tile,
so that several share a multiprocessor).
"""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_SIZE_M = 64
BLOCK_SIZE_N = 128
BLOCK_SIZE_K = 128
GROUP_SIZE_M = 8
SPLIT_K = 1
NUM_WARPS = 4
NUM_STAGES = 3
VARIANT = "plain"

SEARCH_SPACE = {
    "BLOCK_SIZE_M": [16, 32, 64, 128],
    "BLOCK_SIZE_N": [32, 64, 128, 256],
    "BLOCK_SIZE_K": [64, 128],
    "GROUP_SIZE_M": [1, 8, 16, 32],
    "SPLIT_K": [1, 2, 4, 8],
    "NUM_WARPS": [4, 8],
    "NUM_STAGES": [2, 3, 4, 5, 6, 8],
    "VARIANT": ["plain", "persistent", "tma", "tma_tile"],
}
CONSTRAINTS = [
    "SPLIT_K == 1 or (VARIANT == 'plain' and SPLIT_K * 128 <= K)",
    "GROUP_SIZE_M == 1 or (BLOCK_SIZE_M < M and (GROUP_SIZE_M == 8 or GROUP_SIZE_M * BLOCK_SIZE_M < 2 * M))",
    "BLOCK_SIZE_M <= 16 or BLOCK_SIZE_M < 2 * M",
    "NUM_STAGES <= 5 or BLOCK_SIZE_M <= 64",
    "VARIANT in ('plain', 'persistent') or (N % 16 == 0 and K % 16 == 0)",
]

BLOCK = 128
PART_N = 128
BLOCK_SUM = 1024
OUT = "bfloat16"


@triton.jit
def place(tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    # Rows run first within a group of GROUP_M rows of tiles.
    grid_m = tl.cdiv(M, BLOCK_M)
    grid_n = tl.cdiv(N, BLOCK_N)
    first = tile // (GROUP_M * grid_n) * GROUP_M
    rows = min(grid_m - first, GROUP_M)
    within = tile % (GROUP_M * grid_n)
    return first + within % rows, within // rows


@triton.jit
def load_scales(as_ptrs, bs_ptr, off_k, off_n, N, blocks_k, SCALED: tl.constexpr, WIDTH: tl.constexpr):
    # Rows and columns of blocks that begin beyond the edges have none: nothing of them counts, any scale serves.
    block = min(off_k // SCALED, blocks_k - 1)
    left = tl.load(bs_ptr + off_n // SCALED * blocks_k + block)
    right = tl.load(bs_ptr + min(off_n + WIDTH, N - 1) // SCALED * blocks_k + block)
    return tl.load(as_ptrs + block)[:, None], left, right


@triton.jit
def load_operand(ptrs, offs_k, end, EVEN_K: tl.constexpr):
    return tl.load(ptrs) if EVEN_K else tl.load(ptrs, mask=offs_k < end, other=0.0)


@triton.jit
def compute_tile(
    a_ptr, b_ptr, as_ptr, bs_ptr, M, N, K, block_m, block_n, k_first, k_steps,
    EVEN_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SCALED: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    # Rows and columns beyond the edges are read from the beginning, and not written.
    off_n = block_n * BLOCK_N
    offs_m = ((block_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M).to(tl.int64)
    offs_k = k_first + tl.arange(0, BLOCK_K)
    blocks_k = tl.cdiv(K, SCALED)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    left_ptrs = b_ptr + offs_k[:, None] + ((off_n + tl.arange(0, WIDTH)) % N).to(tl.int64)[None, :] * K
    right_ptrs = b_ptr + offs_k[:, None] + ((off_n + WIDTH + tl.arange(0, WIDTH)) % N).to(tl.int64)[None, :] * K
    as_ptrs = as_ptr + offs_m * blocks_k
    left = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
    right = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
    # A step's scales are requested a step before, so that no product waits for them.
    scales = load_scales(as_ptrs, bs_ptr, k_first, off_n, N, blocks_k, SCALED, WIDTH)
    for step in range(0, k_steps):
        end = K - step * BLOCK_K
        a_scales, left_scale, right_scale = scales
        next_k = k_first + (step + 1) * BLOCK_K
        scales = load_scales(as_ptrs, bs_ptr, next_k, off_n, N, blocks_k, SCALED, WIDTH)
        a = load_operand(a_ptrs, offs_k[None, :], end, EVEN_K)
        left += tl.dot(a, load_operand(left_ptrs, offs_k[:, None], end, EVEN_K)) * (a_scales * left_scale)
        if BLOCK_N > WIDTH:
            right += tl.dot(a, load_operand(right_ptrs, offs_k[:, None], end, EVEN_K)) * (a_scales * right_scale)
            right_ptrs += BLOCK_K
        a_ptrs += BLOCK_K
        left_ptrs += BLOCK_K
    return left, right


@triton.jit
def store_part(c_ptr, acc, M, N, off_m, off_n, BLOCK_M: tl.constexpr, WIDTH: tl.constexpr):
    offs_m = (off_m + tl.arange(0, BLOCK_M)).to(tl.int64)
    offs_n = off_n + tl.arange(0, WIDTH)
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def store_tile(
    c_ptr, left, right, M, N, block_m, block_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WIDTH: tl.constexpr
):
    off_m, off_n = block_m * BLOCK_M, block_n * BLOCK_N
    store_part(c_ptr, left, M, N, off_m, off_n, BLOCK_M, WIDTH)
    if BLOCK_N > WIDTH:
        store_part(c_ptr, right, M, N, off_m, off_n + WIDTH, BLOCK_M, WIDTH)


@triton.jit
def blockscale_kernel(
    a_ptr, b_ptr, as_ptr, bs_ptr, c_ptr, M, N, K, k_steps, EVEN_K: tl.constexpr, SCALED: tl.constexpr,
    WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    block_m, block_n = place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    part = tl.program_id(1)
    left, right = compute_tile(
        a_ptr, b_ptr, as_ptr, bs_ptr, M, N, K, block_m, block_n, part * k_steps * BLOCK_K, k_steps,
        EVEN_K, BLOCK_M, BLOCK_N, BLOCK_K, SCALED, WIDTH,
    )  # fmt: skip
    store_tile(c_ptr + part.to(tl.int64) * M * N, left, right, M, N, block_m, block_n, BLOCK_M, BLOCK_N, WIDTH)


@triton.jit
def persistent_kernel(
    a_ptr, b_ptr, as_ptr, bs_ptr, c_ptr, M, N, K, EVEN_K: tl.constexpr, SCALED: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        block_m, block_n = place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        left, right = compute_tile(
            a_ptr, b_ptr, as_ptr, bs_ptr, M, N, K, block_m, block_n, 0, tl.cdiv(K, BLOCK_K),
            EVEN_K, BLOCK_M, BLOCK_N, BLOCK_K, SCALED, WIDTH,
        )  # fmt: skip
        store_tile(c_ptr, left, right, M, N, block_m, block_n, BLOCK_M, BLOCK_N, WIDTH)


@triton.jit
def store_described(c_desc, left, right, off_m, off_n, BLOCK_N: tl.constexpr, WIDTH: tl.constexpr):
    c_desc.store([off_m, off_n], left.to(c_desc.dtype))
    if BLOCK_N > WIDTH:
        c_desc.store([off_m, off_n + WIDTH], right.to(c_desc.dtype))


@triton.jit
def add_described(left, right, scales, a_desc, b_desc, off_m, off_n, off_k, BLOCK_N: tl.constexpr, WIDTH: tl.constexpr):
    a_scales, left_scale, right_scale = scales
    a = a_desc.load([off_m, off_k])
    left += tl.dot(a, b_desc.load([off_n, off_k]).T) * (a_scales * left_scale)
    if BLOCK_N > WIDTH:
        right += tl.dot(a, b_desc.load([off_n + WIDTH, off_k]).T) * (a_scales * right_scale)
    return left, right


@triton.jit
def tma_kernel(
    a_desc, b_desc, as_ptr, bs_ptr, c_desc, M, N, K, SCALED: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    blocks_k = tl.cdiv(K, SCALED)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        block_m, block_n = place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        off_m, off_n = block_m * BLOCK_M, block_n * BLOCK_N
        as_ptrs = as_ptr + ((off_m + tl.arange(0, BLOCK_M)) % M).to(tl.int64) * blocks_k
        left = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
        right = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
        scales = load_scales(as_ptrs, bs_ptr, 0, off_n, N, blocks_k, SCALED, WIDTH)
        for step in range(0, tl.cdiv(K, BLOCK_K)):
            next_scales = load_scales(as_ptrs, bs_ptr, (step + 1) * BLOCK_K, off_n, N, blocks_k, SCALED, WIDTH)
            left, right = add_described(
                left, right, scales, a_desc, b_desc, off_m, off_n, step * BLOCK_K, BLOCK_N, WIDTH
            )
            scales = next_scales
        store_described(c_desc, left, right, off_m, off_n, BLOCK_N, WIDTH)


@triton.jit
def tma_tile_kernel(
    a_desc, b_desc, as_ptr, bs_ptr, c_desc, M, N, K, SCALED: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    block_m, block_n = place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    off_m, off_n = block_m * BLOCK_M, block_n * BLOCK_N
    blocks_k = tl.cdiv(K, SCALED)
    as_ptrs = as_ptr + ((off_m + tl.arange(0, BLOCK_M)) % M).to(tl.int64) * blocks_k
    left = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
    right = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
    scales = load_scales(as_ptrs, bs_ptr, 0, off_n, N, blocks_k, SCALED, WIDTH)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        next_scales = load_scales(as_ptrs, bs_ptr, (step + 1) * BLOCK_K, off_n, N, blocks_k, SCALED, WIDTH)
        left, right = add_described(left, right, scales, a_desc, b_desc, off_m, off_n, step * BLOCK_K, BLOCK_N, WIDTH)
        scales = next_scales
    store_described(c_desc, left, right, off_m, off_n, BLOCK_N, WIDTH)


@triton.jit
def sum_kernel(parts_ptr, c_ptr, numel, SPLIT: tl.constexpr, BLOCK_SUM: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK_SUM + tl.arange(0, BLOCK_SUM)
    mask = offs < numel
    acc = tl.zeros((BLOCK_SUM,), dtype=tl.float32)
    # In a fixed order, so that the same inputs give the same bits.
    part_ptrs = parts_ptr + offs
    for _ in tl.static_range(SPLIT):
        acc += tl.load(part_ptrs, mask=mask, other=0.0)
        part_ptrs += numel
    tl.store(c_ptr + offs, acc.to(c_ptr.dtype.element_ty), mask=mask)


def multiprocessors(device):
    if device.type != "cuda":
        return 2  # The interpreter's programs run one after the other.
    return torch.cuda.get_device_properties(device).multi_processor_count


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor) -> torch.Tensor:
        A, B, As, Bs = A.contiguous(), B.contiguous(), As.contiguous(), Bs.contiguous()
        M, K = A.shape
        N = B.shape[0]
        C = torch.empty((M, N), device=A.device, dtype=getattr(torch, OUT))
        tiles = triton.cdiv(M, BLOCK_SIZE_M) * triton.cdiv(N, BLOCK_SIZE_N)
        programs = min(multiprocessors(A.device), tiles)
        meta = {
            "SCALED": BLOCK,
            "WIDTH": min(BLOCK_SIZE_N, PART_N),
            "BLOCK_M": BLOCK_SIZE_M,
            "BLOCK_N": BLOCK_SIZE_N,
            "BLOCK_K": BLOCK_SIZE_K,
            "GROUP_M": GROUP_SIZE_M,
            "num_warps": NUM_WARPS,
            "num_stages": NUM_STAGES,
        }
        if VARIANT in ("tma", "tma_tile"):
            a = TensorDescriptor.from_tensor(A, [BLOCK_SIZE_M, BLOCK_SIZE_K])
            b = TensorDescriptor.from_tensor(B, [meta["WIDTH"], BLOCK_SIZE_K])
            c = TensorDescriptor.from_tensor(C, [BLOCK_SIZE_M, meta["WIDTH"]])
            if VARIANT == "tma_tile":
                tma_tile_kernel[(tiles,)](a, b, As, Bs, c, M, N, K, **meta)
            else:
                tma_kernel[(programs,)](a, b, As, Bs, c, M, N, K, **meta)
            return C
        even = K % (BLOCK_SIZE_K * SPLIT_K) == 0
        if VARIANT == "persistent":
            persistent_kernel[(programs,)](A, B, As, Bs, C, M, N, K, EVEN_K=even, **meta)
            return C
        steps = triton.cdiv(triton.cdiv(K, BLOCK_SIZE_K), SPLIT_K)
        parts = C if SPLIT_K == 1 else torch.empty((SPLIT_K, M, N), device=A.device, dtype=torch.float32)
        blockscale_kernel[(tiles, SPLIT_K)](A, B, As, Bs, parts, M, N, K, steps, EVEN_K=even, **meta)
        if SPLIT_K > 1:
            sum_kernel[(triton.cdiv(M * N, BLOCK_SUM),)](parts, C, M * N, SPLIT=SPLIT_K, BLOCK_SUM=BLOCK_SUM)
        return C
