"""
Problem Name: gemm/a8w8_blockscale

Product of fp8 A (M, K) and fp8 B (N, K) with a scale for each 1x128 block of A and each 128x128 block of B: every
block of K is multiplied on its own, scaled, and added in fp32. Tiles of C stand in groups of rows, so that programs
that run together share operands in L2. SPLIT_K cuts the loop over K into parts that a second kernel adds in a fixed
order. VARIANT is plain (one program per tile and part), persistent (one program per multiprocessor), tma (persistent,
with tensor descriptors), or tma_tile (the same with one program per tile, so that several share a multiprocessor).
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
BLOCK_SUM = 1024
MAX_STORE = 128
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
def load_scales(as_ptrs, bs_ptr, block, block_n, N, blocks_k, BLOCK_N: tl.constexpr, SCALED: tl.constexpr):
    a_scales = tl.load(as_ptrs + block)[:, None]
    row = block_n * BLOCK_N // SCALED
    b_scales = tl.load(bs_ptr + row * blocks_k + block)
    if BLOCK_N > SCALED:
        # The columns beyond the first block have the next one's scale; there is none where they lie beyond the edge.
        further = tl.load(bs_ptr + min(row + 1, tl.cdiv(N, SCALED) - 1) * blocks_k + block)
        b_scales = tl.where(tl.arange(0, BLOCK_N) < SCALED, b_scales, further)[None, :]
    return a_scales, b_scales


@triton.jit
def compute_tile(
    a_ptr, b_ptr, as_ptr, bs_ptr, M, N, K, block_m, block_n, k_first, k_steps,
    EVEN_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    # Rows and columns beyond the edges are read from the beginning, and not written.
    offs_m = ((block_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M).to(tl.int64)
    offs_n = ((block_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N).to(tl.int64)
    offs_k = k_first + tl.arange(0, BLOCK_K)
    blocks_k = tl.cdiv(K, SCALED)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] + offs_n[None, :] * K
    as_ptrs = as_ptr + offs_m * blocks_k
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, k_steps):
        if EVEN_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=offs_k[None, :] < K - step * BLOCK_K, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k[:, None] < K - step * BLOCK_K, other=0.0)
        # Parts of K that end beyond it have no scale of their own: their operands are zero, any scale serves.
        block = min((k_first + step * BLOCK_K) // SCALED, blocks_k - 1)
        # Requested before the product, so that they arrive while it runs: the compiler waits for each product.
        a_scales, b_scales = load_scales(as_ptrs, bs_ptr, block, block_n, N, blocks_k, BLOCK_N, SCALED)
        acc += tl.dot(a, b) * (a_scales * b_scales)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    return acc


@triton.jit
def store_tile(c_ptr, acc, M, N, block_m, block_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    offs_m = (block_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    offs_n = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def blockscale_kernel(
    a_ptr, b_ptr, as_ptr, bs_ptr, c_ptr, M, N, K, k_steps, EVEN_K: tl.constexpr, SCALED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    block_m, block_n = place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    part = tl.program_id(1)
    acc = compute_tile(
        a_ptr, b_ptr, as_ptr, bs_ptr, M, N, K, block_m, block_n, part * k_steps * BLOCK_K, k_steps,
        EVEN_K, BLOCK_M, BLOCK_N, BLOCK_K, SCALED,
    )  # fmt: skip
    store_tile(c_ptr + part.to(tl.int64) * M * N, acc, M, N, block_m, block_n, BLOCK_M, BLOCK_N)


@triton.jit
def persistent_kernel(
    a_ptr, b_ptr, as_ptr, bs_ptr, c_ptr, M, N, K, EVEN_K: tl.constexpr, SCALED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        block_m, block_n = place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        acc = compute_tile(
            a_ptr, b_ptr, as_ptr, bs_ptr, M, N, K, block_m, block_n, 0, tl.cdiv(K, BLOCK_K),
            EVEN_K, BLOCK_M, BLOCK_N, BLOCK_K, SCALED,
        )  # fmt: skip
        store_tile(c_ptr, acc, M, N, block_m, block_n, BLOCK_M, BLOCK_N)


@triton.jit
def store_described(c_desc, acc, off_m, off_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WIDTH: tl.constexpr):
    # The next tile's operands are on their way already: a wide result goes in halves, so that both have room.
    if BLOCK_N == WIDTH:
        c_desc.store([off_m, off_n], acc.to(c_desc.dtype))
    else:
        left, right = tl.split(tl.permute(tl.reshape(acc, (BLOCK_M, 2, WIDTH)), (0, 2, 1)))
        c_desc.store([off_m, off_n], left.to(c_desc.dtype))
        c_desc.store([off_m, off_n + WIDTH], right.to(c_desc.dtype))


@triton.jit
def add_described(
    acc, a_desc, b_desc, as_ptrs, bs_ptr, N, off_m, off_n, step, block_n, blocks_k,
    SCALED: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    off_k = step * BLOCK_K
    a_scales, b_scales = load_scales(as_ptrs, bs_ptr, off_k // SCALED, block_n, N, blocks_k, BLOCK_N, SCALED)
    product = tl.dot(a_desc.load([off_m, off_k]), b_desc.load([off_n, off_k]).T)
    return acc + product * (a_scales * b_scales)


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
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(0, tl.cdiv(K, BLOCK_K)):
            acc = add_described(
                acc, a_desc, b_desc, as_ptrs, bs_ptr, N, off_m, off_n, step, block_n, blocks_k, SCALED, BLOCK_N, BLOCK_K
            )
        store_described(c_desc, acc, off_m, off_n, BLOCK_M, BLOCK_N, WIDTH)


@triton.jit
def tma_tile_kernel(
    a_desc, b_desc, as_ptr, bs_ptr, c_desc, M, N, K, SCALED: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    block_m, block_n = place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    off_m, off_n = block_m * BLOCK_M, block_n * BLOCK_N
    blocks_k = tl.cdiv(K, SCALED)
    as_ptrs = as_ptr + ((off_m + tl.arange(0, BLOCK_M)) % M).to(tl.int64) * blocks_k
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        acc = add_described(
            acc, a_desc, b_desc, as_ptrs, bs_ptr, N, off_m, off_n, step, block_n, blocks_k, SCALED, BLOCK_N, BLOCK_K
        )
    store_described(c_desc, acc, off_m, off_n, BLOCK_M, BLOCK_N, WIDTH)


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
            "BLOCK_M": BLOCK_SIZE_M,
            "BLOCK_N": BLOCK_SIZE_N,
            "BLOCK_K": BLOCK_SIZE_K,
            "GROUP_M": GROUP_SIZE_M,
            "num_warps": NUM_WARPS,
            "num_stages": NUM_STAGES,
        }
        if VARIANT in ("tma", "tma_tile"):
            a = TensorDescriptor.from_tensor(A, [BLOCK_SIZE_M, BLOCK_SIZE_K])
            b = TensorDescriptor.from_tensor(B, [BLOCK_SIZE_N, BLOCK_SIZE_K])
            width = min(BLOCK_SIZE_N, MAX_STORE)
            c = TensorDescriptor.from_tensor(C, [BLOCK_SIZE_M, width])
            if VARIANT == "tma_tile":
                tma_tile_kernel[(tiles,)](a, b, As, Bs, c, M, N, K, WIDTH=width, **meta)
            else:
                tma_kernel[(programs,)](a, b, As, Bs, c, M, N, K, WIDTH=width, **meta)
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
