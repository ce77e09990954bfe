"""
Problem Name: gemm/a8w8_blockscale

Product of fp8 A (M, K) and fp8 B (N, K) with a scale for each 1x128 block of A and each 128x128 block of B, in
TileLang: the tensor cores multiply one tile of K, whose sum is scaled and added in fp32 registers. GROUP_SIZE_M rows of
tiles run together. VARIANT is plain, roles, turns or pairs.

Plain: copies run ahead in NUM_STAGES buffers, POLICY is how the warps share a tile, SPLIT_K cuts the loop over K into
parts that a second kernel adds in a fixed order. Roles: four more warps load, and the others are two or three groups of
four, each with 64 rows of the tile, one part of 128 columns after the other: a group scales its sums while another one
multiplies. One program per multiprocessor takes one tile after another, so that loads run ahead of a tile's end. Turns:
the same, and the groups issue their products one after the other. Pairs: roles on two multiprocessors with one tile
below the other, which get their tile of B by one load.
"""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_SIZE_M = 64
BLOCK_SIZE_N = 128
BLOCK_SIZE_K = 128
GROUP_SIZE_M = 8
SPLIT_K = 1
NUM_WARPS = 4
NUM_STAGES = 4
POLICY = "Square"
VARIANT = "plain"

SEARCH_SPACE = {
    "BLOCK_SIZE_M": [64, 128, 192],
    "BLOCK_SIZE_N": [32, 64, 128, 256],
    "BLOCK_SIZE_K": [64, 128],
    "GROUP_SIZE_M": [1, 8, 16, 32],
    "SPLIT_K": [1, 2, 4, 8],
    "NUM_WARPS": [4, 8, 12],
    "NUM_STAGES": [2, 3, 4, 5, 6],
    "POLICY": ["Square", "FullRow", "FullCol"],
    "VARIANT": ["plain", "roles", "turns", "pairs"],
}
CONSTRAINTS = [
    "SPLIT_K == 1 or SPLIT_K * 128 <= K",
    "GROUP_SIZE_M == 1 or (BLOCK_SIZE_M < M and (GROUP_SIZE_M == 8 or GROUP_SIZE_M * BLOCK_SIZE_M < 2 * M))",
    "BLOCK_SIZE_M <= 64 or BLOCK_SIZE_M < 2 * M",
    # The tile's sum and the total are both in registers.
    "VARIANT != 'plain' or BLOCK_SIZE_M * BLOCK_SIZE_N <= 96 * 32 * NUM_WARPS",
    "VARIANT != 'plain' or (BLOCK_SIZE_M <= 128 and NUM_WARPS <= 8)",
    "VARIANT == 'plain' or (BLOCK_SIZE_M >= 128 and BLOCK_SIZE_M == 16 * NUM_WARPS)",
    # Three groups have 160 registers a thread.
    "VARIANT == 'plain' or BLOCK_SIZE_N == 128 or (BLOCK_SIZE_N == 256 and BLOCK_SIZE_M == 128)",
    "VARIANT == 'plain' or (BLOCK_SIZE_K == 128 and K % 16 == 0 and N % 8 == 0)",
    "VARIANT == 'plain' or (POLICY == 'FullRow' and SPLIT_K == 1)",
    # Each group has a part of its result in shared memory, of which a block has 227 KB.
    "VARIANT == 'plain' or (BLOCK_SIZE_M + BLOCK_SIZE_N) * 128 * NUM_STAGES + BLOCK_SIZE_M * 256 <= 226 * 1024",
]

BLOCK = 128
PART_N = 128
BLOCK_SUM = 1024
OUT = "bfloat16"


@functools.lru_cache
def build(M, N, K):
    # Parts are whole numbers of tiles; tiles past the end of K are read as zeros.
    steps = -(-K // (BLOCK_SIZE_K * SPLIT_K))
    blocks_n, blocks_k = -(-N // BLOCK), -(-K // BLOCK)
    policy = T.GemmWarpPolicy[POLICY]

    @T.prim_func
    def blockscale(
        A: T.Tensor((M, K), "float8_e4m3fn"),
        B: T.Tensor((N, K), "float8_e4m3fn"),
        As: T.Tensor((M, blocks_k), "float32"),
        Bs: T.Tensor((blocks_n, blocks_k), "float32"),
        C: T.Tensor((SPLIT_K, M, N), "float32" if SPLIT_K > 1 else OUT),
    ):
        with T.Kernel(
            T.ceildiv(N, BLOCK_SIZE_N), T.ceildiv(M, BLOCK_SIZE_M), SPLIT_K, threads=32 * NUM_WARPS
        ) as (bx, by, bz):  # fmt: skip
            A_shared = T.alloc_shared((BLOCK_SIZE_M, BLOCK_SIZE_K), "float8_e4m3fn")
            B_shared = T.alloc_shared((BLOCK_SIZE_N, BLOCK_SIZE_K), "float8_e4m3fn")
            scales = T.alloc_shared((BLOCK_SIZE_M,), "float32")
            scale = T.alloc_fragment((BLOCK_SIZE_M,), "float32")
            part = T.alloc_fragment((BLOCK_SIZE_M, BLOCK_SIZE_N), "float32")
            acc = T.alloc_fragment((BLOCK_SIZE_M, BLOCK_SIZE_N), "float32")
            T.use_swizzle(GROUP_SIZE_M, order="row", enable=GROUP_SIZE_M > 1)
            T.clear(acc)
            for ko in T.Pipelined(steps, num_stages=NUM_STAGES):
                k = (bz * steps + ko) * BLOCK_SIZE_K
                # Parts of K that end beyond it have no scale of their own: their operands are zero, any scale serves.
                block = T.min(k // BLOCK, blocks_k - 1)
                T.copy(A[by * BLOCK_SIZE_M, k], A_shared)
                T.copy(B[bx * BLOCK_SIZE_N, k], B_shared)
                for i in T.Parallel(BLOCK_SIZE_M):
                    scales[i] = As[T.min(by * BLOCK_SIZE_M + i, M - 1), block]
                # Read before the product: after it the buffers of the stage belong to the copies again.
                T.copy(scales, scale)
                T.gemm(A_shared, B_shared, part, transpose_B=True, policy=policy, clear_accum=True)
                for i, j in T.Parallel(BLOCK_SIZE_M, BLOCK_SIZE_N):
                    column = T.min((bx * BLOCK_SIZE_N + j) // BLOCK, blocks_n - 1)
                    acc[i, j] += part[i, j] * scale[i] * Bs[column, block]
            T.copy(acc, C[bz, by * BLOCK_SIZE_M, bx * BLOCK_SIZE_N])

    return tilelang.compile(blockscale, out_idx=[-1], target=TARGET)


ROWS = 64
"""Of a group: those of one instruction."""
GROUPS = BLOCK_SIZE_M // ROWS
REGISTERS = 240 if GROUPS == 2 else 160
"""Of a computing thread, with what the loading warps give away."""
PAIR = 2 if VARIANT == "pairs" else 1
BOTH = 0b11
"""Who gets a tile of B: a bit for each of a pair."""
TURN = 8
"""The first of the named barriers that pass the turn on; TileLang itself counts up from 3."""
STORE = 11
"""The first of those of the threads of a group, which store a part of the result together."""


@functools.lru_cache
def build_roles(M, N, K, multiprocessors):
    steps, blocks_n, blocks_k = -(-K // BLOCK_SIZE_K), -(-N // BLOCK), -(-K // BLOCK)
    # One below the other, the tiles of a pair share the columns of B.
    grid_m, grid_n = -(-M // (BLOCK_SIZE_M * PAIR)), -(-N // BLOCK_SIZE_N)
    tiles = grid_m * grid_n
    workers = min(multiprocessors // PAIR, tiles)
    rounds = -(-tiles // workers)
    # A tuple, since a range would be a loop of the kernel.
    parts = tuple(range(BLOCK_SIZE_N // PART_N))

    @T.macro
    def place(tile, rank, m, n):
        first = tile // (GROUP_SIZE_M * grid_n) * GROUP_SIZE_M
        within = tile % (GROUP_SIZE_M * grid_n)
        height = T.min(grid_m - first, GROUP_SIZE_M)
        m[0] = (first + within % height) * PAIR + rank
        n[0] = within // height

    @T.macro
    def load(program, A, B, a_shared, b_shared, full, empty):
        tile, m, n = (T.alloc_local((1,), "int32") for _ in range(3))
        for lap in T.serial(rounds):
            tile[0] = lap * workers + program // PAIR
            if tile[0] < tiles:
                place(tile[0], program % PAIR, m, n)
                row, column = m[0] * BLOCK_SIZE_M, n[0] * BLOCK_SIZE_N
                for step in T.serial(steps):
                    number = lap * steps + step
                    stage, k = number % NUM_STAGES, step * BLOCK_SIZE_K
                    T.barrier_wait(empty[stage], (number // NUM_STAGES + 1) % 2)
                    for group in tuple(range(GROUPS)):
                        T.tma_copy(
                            A[row + group * ROWS : row + (group + 1) * ROWS, k : k + BLOCK_SIZE_K],
                            a_shared[stage, group, :, :], barrier=full[stage],
                        )  # fmt: skip
                    for part in parts:
                        T.tma_copy(
                            B[column + part * PART_N : column + (part + 1) * PART_N, k : k + BLOCK_SIZE_K],
                            b_shared[stage, part, :, :], barrier=full[stage], cluster_mask=BOTH if PAIR > 1 else None,
                        )  # fmt: skip
                    if T.shuffle_elect(32):
                        T.barrier_arrive(full[stage])

    @T.macro
    def give_back(empty, stage):
        if PAIR == 1:
            T.barrier_arrive(empty[stage])
        else:
            T.mbarrier_arrive(empty[stage], 0)
            T.mbarrier_arrive(empty[stage], 1)

    @T.macro
    def request_scales(As, Bs, row, column, step, a_scale, b_scale):
        block = T.min(step, blocks_k - 1)
        # Rows and columns beyond the edges are not written: any scale serves.
        for i in T.Parallel(ROWS):
            a_scale[i] = As[T.min(row + i, M - 1), block]
        for part in parts:
            b_scale[part] = Bs[T.min(column // BLOCK + part, blocks_n - 1), block]

    @T.macro
    def compute(group, program, As, Bs, a_shared, b_shared, c_shared, full, empty, C):
        tile, m, n = (T.alloc_local((1,), "int32") for _ in range(3))
        sums = [T.alloc_fragment((ROWS, PART_N), "float32") for _ in parts]
        scales = [T.alloc_fragment((ROWS,), "float32") for _ in parts]
        product = T.alloc_fragment((ROWS, PART_N), "float32")
        a_scale, b_scale = T.alloc_fragment((ROWS,), "float32"), T.alloc_local((len(parts),), "float32")
        T.set_max_nreg(REGISTERS, 1)
        if VARIANT == "turns" and group == GROUPS - 1:
            T.named_barrier_arrive(TURN, 256)
        for lap in T.serial(rounds):
            tile[0] = lap * workers + program // PAIR
            if tile[0] < tiles:
                place(tile[0], program % PAIR, m, n)
                row, column = m[0] * BLOCK_SIZE_M + group * ROWS, n[0] * BLOCK_SIZE_N
                for part in parts:
                    T.clear(sums[part])
                request_scales(As, Bs, row, column, 0, a_scale, b_scale)
                for step in T.serial(steps):
                    number = lap * steps + step
                    stage = number % NUM_STAGES
                    for part in parts:
                        for i in T.Parallel(ROWS):
                            scales[part][i] = a_scale[i] * b_scale[part]
                    T.barrier_wait(full[stage], number // NUM_STAGES % 2)
                    for part in parts:
                        if VARIANT == "turns":
                            T.sync_threads(TURN + group, 256)
                        T.wgmma_gemm(
                            a_shared[stage, group, :, :], b_shared[stage, part, :, :], product, transpose_B=True,
                            policy=T.GemmWarpPolicy.FullRow, clear_accum=True,
                        )  # fmt: skip
                        if VARIANT == "turns":
                            T.named_barrier_arrive(TURN + (group + 1) % GROUPS, 256)
                        if part == 0:
                            # A step before, so that no product waits for them.
                            request_scales(As, Bs, row, column, step + 1, a_scale, b_scale)
                        T.wait_wgmma(0)
                        T.warpgroup_fence_operand(product, num_regs=ROWS * PART_N // 128)
                        # Each `if` by itself, since the first is of this file and the other is of the kernel.
                        if part == parts[-1]:  # noqa: SIM102
                            if T.shuffle_elect(32):
                                give_back(empty, stage)
                        for i, j in T.Parallel(ROWS, PART_N):
                            sums[part][i, j] += product[i, j] * scales[part][i]
                for part in parts:
                    # When the part before has left the buffer.
                    T.tma_store_wait(0)
                    T.sync_threads(STORE + group, 128)
                    T.copy(sums[part], c_shared[group, :, :])
                    T.fence_proxy_async()
                    T.sync_threads(STORE + group, 128)
                    first, last = column + part * PART_N, column + (part + 1) * PART_N
                    T.tma_copy(c_shared[group, :, :], C[row : row + ROWS, first:last])
        T.tma_store_wait(0)
        # The turn that the last group has passed on at the end: each barrier ends as it began.
        if VARIANT == "turns" and group == 0:
            T.sync_threads(TURN, 256)

    @T.prim_func
    def blockscale(
        A: T.Tensor((M, K), "float8_e4m3fn"),
        B: T.Tensor((N, K), "float8_e4m3fn"),
        As: T.Tensor((M, blocks_k), "float32"),
        Bs: T.Tensor((blocks_n, blocks_k), "float32"),
        C: T.Tensor((M, N), OUT),
    ):
        with T.Kernel(workers * PAIR, threads=32 * NUM_WARPS + 128, cluster_dims=PAIR) as program:
            a_shared = T.alloc_shared((NUM_STAGES, GROUPS, ROWS, BLOCK_SIZE_K), "float8_e4m3fn")
            b_shared = T.alloc_shared((NUM_STAGES, len(parts), PART_N, BLOCK_SIZE_K), "float8_e4m3fn")
            c_shared = T.alloc_shared((GROUPS, ROWS, PART_N), OUT)
            # The thread that issues a load arrives, and the bytes of the tile; then a thread of each computing warp.
            full = T.alloc_barrier([1] * NUM_STAGES)
            empty = (T.alloc_cluster_barrier if PAIR > 1 else T.alloc_barrier)([NUM_WARPS * PAIR] * NUM_STAGES)
            # One if with all roles: the registers can then be moved, and no barrier of all threads stands between.
            thread = T.get_thread_binding()
            if thread < 128:
                T.set_max_nreg(24, 0)
                # One warp is enough.
                if thread < 32:
                    load(program, A, B, a_shared, b_shared, full, empty)
            elif thread < 256:
                compute(0, program, As, Bs, a_shared, b_shared, c_shared, full, empty, C)
            elif thread < 384:
                compute(1, program, As, Bs, a_shared, b_shared, c_shared, full, empty, C)
            else:  # with two groups no thread comes here
                compute(GROUPS - 1, program, As, Bs, a_shared, b_shared, c_shared, full, empty, C)
            # The memory of a multiprocessor that has ended could not be written to.
            if PAIR > 1:
                T.cluster_sync()

    # Rows and columns are positive, which TileLang would check at every access.
    return tilelang.compile(
        blockscale, out_idx=[-1], target=TARGET, pass_configs={"tl.disable_safe_memory_legalize": True}
    )


@functools.lru_cache
def build_sum(size):
    @T.prim_func
    def sum_parts(parts: T.Tensor((SPLIT_K, size), "float32"), C: T.Tensor((size,), OUT)):
        with T.Kernel(T.ceildiv(size, BLOCK_SUM), threads=128) as bx:
            part = T.alloc_fragment((BLOCK_SUM,), "float32")
            total = T.alloc_fragment((BLOCK_SUM,), "float32")
            T.clear(total)
            # In a fixed order, so that the same inputs give the same bits.
            for split in T.unroll(SPLIT_K):
                T.copy(parts[split, bx * BLOCK_SUM], part)
                for i in T.Parallel(BLOCK_SUM):
                    total[i] += part[i]
            T.copy(total, C[bx * BLOCK_SUM])

    return tilelang.compile(sum_parts, out_idx=[-1], target=TARGET)


def multiprocessors(device):
    return torch.cuda.get_device_properties(device).multi_processor_count


class ModelNew(nn.Module):
    def forward(self, A: torch.Tensor, B: torch.Tensor, As: torch.Tensor, Bs: torch.Tensor) -> torch.Tensor:
        A, B, As, Bs = A.contiguous(), B.contiguous(), As.contiguous(), Bs.contiguous()
        M, K = A.shape
        N = B.shape[0]
        if VARIANT != "plain":
            return build_roles(M, N, K, multiprocessors(A.device))(A, B, As, Bs)
        C = build(M, N, K)(A, B, As, Bs)
        return C.view(M, N) if SPLIT_K == 1 else build_sum(M * N)(C.view(SPLIT_K, M * N)).view(M, N)
