"""
Problem Name: gemm/gemm

Matrix product C = A B with fp32 accumulation: tiles of C in groups of rows, so that programs that run together share
operands in L2. SPLIT_K cuts the loop over K into parts that a second kernel adds in a fixed order. VARIANT is plain
(one program per tile and part), persistent (one program per multiprocessor), tma (persistent, with tensor
descriptors), or tma_tile (the same with one program per tile, so that several share a multiprocessor).
"""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_SIZE_M = 128
BLOCK_SIZE_N = 128
BLOCK_SIZE_K = 64
GROUP_SIZE_M = 8
SPLIT_K = 1
NUM_WARPS = 8
NUM_STAGES = 3
VARIANT = "plain"

SEARCH_SPACE = {
    "BLOCK_SIZE_M": [16, 32, 64, 128, 256],
    "BLOCK_SIZE_N": [32, 64, 128, 256],
    "BLOCK_SIZE_K": [32, 64, 128],
    "GROUP_SIZE_M": [1, 4, 8, 16],
    "SPLIT_K": [1, 2, 4, 8, 16],
    "NUM_WARPS": [4, 8],
    "NUM_STAGES": [2, 3, 4, 5, 6],
    "VARIANT": ["plain", "persistent", "tma", "tma_tile"],
}
CONSTRAINTS = [
    "BLOCK_SIZE_M <= 128 or BLOCK_SIZE_N <= 128",
    "SPLIT_K == 1 or (VARIANT == 'plain' and SPLIT_K * BLOCK_SIZE_K <= K)",
    "GROUP_SIZE_M == 1 or (BLOCK_SIZE_M < M and (GROUP_SIZE_M == 4 or GROUP_SIZE_M * BLOCK_SIZE_M < 2 * M))",
    "BLOCK_SIZE_M <= 16 or BLOCK_SIZE_M < 2 * M",
    "NUM_STAGES <= 5 or BLOCK_SIZE_M <= 64",
    "VARIANT in ('plain', 'persistent') or (M % 16 == 0 and N % 16 == 0 and K % 16 == 0)",
]

BLOCK_SUM = 1024
MAX_STORE = 128


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
def accumulate(acc, a, b):
    # Tensor cores add fp8 products with few bits: their sum over a block goes into fp32 registers.
    if a.dtype.primitive_bitwidth == 8:
        acc += tl.dot(a, b)
    else:
        acc = tl.dot(a, b, acc)
    return acc


@triton.jit
def compute_tile(
    a_ptr, b_ptr, M, N, K, lda, ldb, block_m, block_n, k_first, k_steps,
    A_ROWS: tl.constexpr, B_ROWS: tl.constexpr, EVEN_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # Rows and columns beyond the edges are read from the beginning, and not written.
    offs_m = ((block_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M).to(tl.int64)
    offs_n = ((block_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N).to(tl.int64)
    offs_k = k_first + tl.arange(0, BLOCK_K)
    if A_ROWS:
        a_ptrs = a_ptr + offs_m[:, None] * lda + offs_k[None, :]
    else:
        a_ptrs = a_ptr + offs_m[:, None] + offs_k[None, :].to(tl.int64) * lda
    if B_ROWS:
        b_ptrs = b_ptr + offs_k[:, None].to(tl.int64) * ldb + offs_n[None, :]
    else:
        b_ptrs = b_ptr + offs_k[:, None] + offs_n[None, :] * ldb
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # A way around the loop, where zeros meet its results, makes ptxas of Triton 3.6 wait for each product by itself.
    tl.assume(k_steps > 0)
    for step in range(0, k_steps):
        if EVEN_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=offs_k[None, :] < K - step * BLOCK_K, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k[:, None] < K - step * BLOCK_K, other=0.0)
        acc = accumulate(acc, a, b)
        a_ptrs += BLOCK_K if A_ROWS else BLOCK_K * lda
        b_ptrs += BLOCK_K * ldb if B_ROWS else BLOCK_K
    return acc


@triton.jit
def store_tile(c_ptr, acc, M, N, block_m, block_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    offs_m = (block_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    offs_n = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def gemm_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, lda, ldb, k_steps,
    A_ROWS: tl.constexpr, B_ROWS: tl.constexpr, EVEN_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    block_m, block_n = place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    part = tl.program_id(1)
    acc = compute_tile(
        a_ptr, b_ptr, M, N, K, lda, ldb, block_m, block_n, part * k_steps * BLOCK_K, k_steps,
        A_ROWS, B_ROWS, EVEN_K, BLOCK_M, BLOCK_N, BLOCK_K,
    )  # fmt: skip
    store_tile(c_ptr + part.to(tl.int64) * M * N, acc, M, N, block_m, block_n, BLOCK_M, BLOCK_N)


@triton.jit
def persistent_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, lda, ldb,
    A_ROWS: tl.constexpr, B_ROWS: tl.constexpr, EVEN_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        block_m, block_n = place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        acc = compute_tile(
            a_ptr, b_ptr, M, N, K, lda, ldb, block_m, block_n, 0, tl.cdiv(K, BLOCK_K),
            A_ROWS, B_ROWS, EVEN_K, BLOCK_M, BLOCK_N, BLOCK_K,
        )  # fmt: skip
        store_tile(c_ptr, acc, M, N, block_m, block_n, BLOCK_M, BLOCK_N)


@triton.jit
def load_described(a_desc, b_desc, off_m, off_n, off_k, A_ROWS: tl.constexpr, B_ROWS: tl.constexpr):
    if A_ROWS:
        a = a_desc.load([off_m, off_k])
    else:
        a = a_desc.load([off_k, off_m]).T
    if B_ROWS:
        b = b_desc.load([off_k, off_n])
    else:
        b = b_desc.load([off_n, off_k]).T
    return a, b


@triton.jit
def store_described(c_desc, acc, off_m, off_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WIDTH: tl.constexpr):
    # The next tile's operands are on their way already: a large result goes in halves, so that both have room.
    if BLOCK_N == WIDTH:
        c_desc.store([off_m, off_n], acc.to(c_desc.dtype))
    else:
        left, right = tl.split(tl.permute(tl.reshape(acc, (BLOCK_M, 2, WIDTH)), (0, 2, 1)))
        c_desc.store([off_m, off_n], left.to(c_desc.dtype))
        c_desc.store([off_m, off_n + WIDTH], right.to(c_desc.dtype))


@triton.jit
def tma_kernel(
    a_desc, b_desc, c_desc, M, N, K,
    A_ROWS: tl.constexpr, B_ROWS: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    programs = tl.num_programs(0)
    # The epilogue counts its tiles itself: the loads of a flattened loop are already at the next tile by then.
    stored = tl.program_id(0) - programs
    for tile in tl.range(tl.program_id(0), tiles, programs, flatten=True):
        block_m, block_n = place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        off_m, off_n = block_m * BLOCK_M, block_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(0, tl.cdiv(K, BLOCK_K)):
            a, b = load_described(a_desc, b_desc, off_m, off_n, step * BLOCK_K, A_ROWS, B_ROWS)
            acc = accumulate(acc, a, b)
        stored += programs
        stored_m, stored_n = place(stored, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        store_described(c_desc, acc, stored_m * BLOCK_M, stored_n * BLOCK_N, BLOCK_M, BLOCK_N, WIDTH)


@triton.jit
def tma_tile_kernel(
    a_desc, b_desc, c_desc, M, N, k_steps,
    A_ROWS: tl.constexpr, B_ROWS: tl.constexpr, WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    block_m, block_n = place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    off_m, off_n = block_m * BLOCK_M, block_n * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    tl.assume(k_steps > 0)  # as in compute_tile
    for step in range(0, k_steps):
        a, b = load_described(a_desc, b_desc, off_m, off_n, step * BLOCK_K, A_ROWS, B_ROWS)
        acc = accumulate(acc, a, b)
    store_described(c_desc, acc, off_m, off_n, BLOCK_M, BLOCK_N, WIDTH)


@triton.jit
def sum_kernel(parts_ptr, c_ptr, numel, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < numel
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
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


def descriptor(tensor, rows, height, width):
    return TensorDescriptor.from_tensor(tensor if rows else tensor.t(), [height, width] if rows else [width, height])


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        M, K = A.shape
        N = B.shape[1]
        a_rows, b_rows = A.stride(1) == 1, B.stride(1) == 1
        if not a_rows and A.stride(0) != 1:
            A, a_rows = A.contiguous(), True
        if not b_rows and B.stride(0) != 1:
            B, b_rows = B.contiguous(), True
        out = torch.bfloat16 if A.element_size() == 1 else A.dtype
        C = torch.empty((M, N), device=A.device, dtype=out)
        tiles = triton.cdiv(M, BLOCK_SIZE_M) * triton.cdiv(N, BLOCK_SIZE_N)
        layout = {"A_ROWS": a_rows, "B_ROWS": b_rows}
        meta = {
            "BLOCK_M": BLOCK_SIZE_M,
            "BLOCK_N": BLOCK_SIZE_N,
            "BLOCK_K": BLOCK_SIZE_K,
            "GROUP_M": GROUP_SIZE_M,
            "num_warps": NUM_WARPS,
            "num_stages": NUM_STAGES,
        }
        programs = min(multiprocessors(A.device), tiles)
        if VARIANT in ("tma", "tma_tile"):
            a = descriptor(A, a_rows, BLOCK_SIZE_M, BLOCK_SIZE_K)
            b = descriptor(B, b_rows, BLOCK_SIZE_K, BLOCK_SIZE_N)
            width = min(BLOCK_SIZE_N, MAX_STORE * MAX_STORE // max(BLOCK_SIZE_M, MAX_STORE))
            c = descriptor(C, True, BLOCK_SIZE_M, width)
            if VARIANT == "tma_tile":
                steps = triton.cdiv(K, BLOCK_SIZE_K)
                tma_tile_kernel[(tiles,)](a, b, c, M, N, steps, WIDTH=width, **layout, **meta)
            else:
                tma_kernel[(programs,)](a, b, c, M, N, K, WIDTH=width, **layout, **meta)
            return C
        lda, ldb = A.stride(0 if a_rows else 1), B.stride(0 if b_rows else 1)
        layout["EVEN_K"] = K % (BLOCK_SIZE_K * SPLIT_K) == 0
        if VARIANT == "persistent":
            persistent_kernel[(programs,)](A, B, C, M, N, K, lda, ldb, **layout, **meta)
            return C
        steps = triton.cdiv(triton.cdiv(K, BLOCK_SIZE_K), SPLIT_K)
        parts = C if SPLIT_K == 1 else torch.empty((SPLIT_K, M, N), device=A.device, dtype=torch.float32)
        gemm_kernel[(tiles, SPLIT_K)](A, B, parts, M, N, K, lda, ldb, steps, **layout, **meta)
        if SPLIT_K > 1:
            sum_kernel[(triton.cdiv(M * N, BLOCK_SUM),)](parts, C, M * N, SPLIT=SPLIT_K, BLOCK=BLOCK_SUM)
        return C
