"""Attention whose loop runs as a modulo schedule says: each operation has a cycle, the loop an interval.

Order in the body is the cycle modulo the interval, the pipeline stage the cycle divided by it. Sequence lengths may be
any: keys past the end, and after the query where it is causal, start from -inf.

With ROLES four more warps load the keys and values, and the others compute, each in the order of the cycles; the
products are then asynchronous. `T.annotate_ws_schedule` gets both programs. With TURNS, too, each four of the computing
warps are a group of their own, and the groups take turns at the tensor cores.
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

# Cycles of the model: by hand, the product with V of the tile before under the softmax.
INTERVAL = 44
COPY_K = 0
QK = 44
ROW_MAX = 61
SCALE = 63
EXP = 64
ROW_SUM = 80
CAST = 84
RESCALE = 82
COPY_V = 11
PV = 104

# Probabilities and scales through shared memory, which has versions: then RESCALE and PV may be a stage later.
P_SHARED = False

# Groups of 64 queries in turns, as in FlashAttention-3 (Shah et al., 2024): a group issues its products, hands the turn
# over, and computes its softmax under the others' products. `T.annotate_ws_schedule` cannot say it, since a pipeline
# there joins exactly two roles; so it has barriers of its own.
TURNS = True

# Four more warps that load, DEPTH tiles ahead; registers of a thread, 0 for those that it starts with.
ROLES = True
DEPTH = 2
CONSUMER_REGS = 240
PRODUCER_REGS = 24

# In turns: heads, of all batches, whose blocks of queries stand side by side in the order of the work, and how many
# programs share that work, each taking one tile of queries after another; 0 for a program for each tile.
HEADS_ABREAST = 1
WORKERS = 0

# In turns: whether the wait for the product with V keeps its place behind the softmax. ptxas 13.0 moves it up to the
# first maximum, so that no product of the same group is under way while the softmax runs; past a branch it moves none.
WAIT_IN_PLACE = False

# In turns: whether results leave through shared memory, by bulk copies, while the group goes on. That needs room for a
# result beside the operands: at heads of 128 columns there is some.
BULK_STORE = False

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


def op(name, **more):
    """The name of a statement, which a role's program places."""
    return {"annotations": {T.WSID: name}, **more} if ROLES else more


def computing_order():
    """The computing role's program, and the iterations that the product with V is behind."""
    cycles = {
        "QK": QK, "ROW_MAX": ROW_MAX, "SCALE": SCALE, "EXP": EXP, "ROW_SUM": ROW_SUM, "CAST": CAST, "RESCALE": RESCALE,
        "PV": PV,
    }  # fmt: skip
    first = min(cycles.values()) // INTERVAL
    stages = {name: cycle // INTERVAL - first for name, cycle in cycles.items()}
    names = list(cycles)
    names.sort(key=lambda name: (cycles[name] % INTERVAL, -stages[name], list(cycles).index(name)))
    return names, stages["PV"] - stages["QK"]


def loading_order():
    """The loads in the order of their cycles."""
    return ["COPY_K", "COPY_V"][:: 1 if (COPY_K % INTERVAL, 0) < (COPY_V % INTERVAL, 1) else -1]


def schedule_of_roles(q_shared, k_shared, v_shared):
    """Who does what, in which order. What waits for a product stands before the first use of its result."""
    sync, warps = T.WSSync, THREADS // 32
    names, behind = computing_order()
    loads = [(copy[-1].lower(), copy) for copy in loading_order()]
    producer = [step for p, copy in loads for step in (sync.producer_acquire(p), copy, sync.producer_commit(p))]
    two = {"ROW_MAX": ["OLD_MAX", "ROW_MAX"], "ROW_SUM": ["TILE_SUM", "ROW_SUM"]}
    done = ["PV_DONE", sync.consumer_release("v", behind)]
    consumer, reads_v = [], False
    for name in names:
        if name == "QK":
            consumer += ["MASK", sync.consumer_wait("k"), "QK"]
        elif name == "PV":
            reads_v = bool(behind)
            consumer += [sync.consumer_wait("v", behind), "PV", *([] if behind else done)]
        else:
            if name == "ROW_MAX":
                consumer += ["QK_DONE_FIRST", "QK_DONE", sync.consumer_release("k")]
            if name in ("CAST", "RESCALE") and reads_v:
                consumer, reads_v = consumer + done, False
            consumer += two.get(name, [name])
    consumer += done if reads_v else []
    before = [sync.producer_acquire("q"), "LOAD_Q", sync.producer_commit("q"), "LOOP"]
    compute = ["ZERO", "ZERO_SUM", "NO_MAX", sync.consumer_wait("q"), "LOOP", sync.consumer_release("q")]
    return T.WSSchedule(
        num_warps=warps + 4,
        roles=[
            T.WSRole("compute", warps_lo=0, warps_hi=warps, max_nreg=CONSUMER_REGS),
            T.WSRole("load", warps_lo=warps, warps_hi=warps + 4, max_nreg=PRODUCER_REGS if CONSUMER_REGS else 0),
        ],
        pipelines=[
            T.WSPipeline("q", [q_shared], 1),
            T.WSPipeline("k", [k_shared], DEPTH),
            T.WSPipeline("v", [v_shared], DEPTH),
        ],
        scopes=[
            T.WSScope(T.WSScope.ROOT, {"load": before, "compute": [*compute, "LAST_DONE", "DIVIDE", "STORE"]}),
            T.WSScope("LOOP", {"load": producer, "compute": consumer}),
        ],
    )


def first_row(bx, SQ, causal):
    """The first query of a block: where it is causal the longest blocks start first, so that none ends late."""
    return ((SQ + BLOCK_M - 1) // BLOCK_M - 1 - bx if causal else bx) * BLOCK_M


def one_program(B, H, HK, SQ, SK, D, DV, causal, dtype, factor):
    """All computing warps in one program, which TileLang pipelines or splits into roles."""
    order, stage = order_and_stage()
    how = {"num_stages": NUM_STAGES} if AUTOMATIC else {"order": order, "stage": stage}
    names, behind = computing_order()
    # While the softmax runs, the product with V may still be under way if it was issued after that with K.
    left = 1 if behind and names.index("QK") < names.index("PV") < names.index("ROW_MAX") else 0
    product = T.wgmma_gemm if ROLES else T.gemm
    rows = {"policy": T.GemmWarpPolicy.FullRow}

    @T.macro
    def wait_for_scores(s, block):
        # The first iteration has no product with V in flight: to leave one would be to leave that with K.
        if block == 0:
            with T.ws_op("QK_DONE_FIRST"):
                T.wait_wgmma(0)
                T.warpgroup_fence_operand(s, num_regs=BLOCK_M * BLOCK_N // THREADS)
        if block > 0:
            with T.ws_op("QK_DONE"):
                T.wait_wgmma(left)
                T.warpgroup_fence_operand(s, num_regs=BLOCK_M * BLOCK_N // THREADS)

    @T.macro
    def wait_for_values(acc):
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(acc, num_regs=BLOCK_M * DV // THREADS)

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
            if ROLES:
                T.annotate_ws_schedule(schedule_of_roles(q_shared, k_shared, v_shared))
            T.copy(q[batch, head, first_row(bx, SQ, causal), 0], q_shared, **op("LOAD_Q"))
            T.clear(acc, **op("ZERO"))
            T.clear(row_sum, **op("ZERO_SUM"))
            T.fill(row_max, -T.infinity("float32"), **op("NO_MAX"))
            keys = T.min(SK, first_row(bx, SQ, causal) + BLOCK_M) if causal else SK
            blocks = T.ceildiv(keys, BLOCK_N)
            for block in T.serial(blocks, **op("LOOP")) if ROLES else T.Pipelined(blocks, **how):
                T.copy(k[batch, head // (H // HK), block * BLOCK_N, 0], k_shared, **op("COPY_K"))
                for i, j in T.Parallel(BLOCK_M, BLOCK_N, **op("MASK")):
                    last = T.min(SK - 1, first_row(bx, SQ, causal) + i) if causal else SK - 1
                    s[i, j] = T.if_then_else(block * BLOCK_N + j <= last, 0.0, -T.infinity("float32"))
                # Whole rows in one warp: maxima and sums then need no exchange between warps.
                product(q_shared, k_shared, s, transpose_B=True, **op("QK", **rows))
                if ROLES:
                    wait_for_scores(s, block)
                T.copy(row_max, old_max, **op("OLD_MAX"))
                T.reduce_max(s, row_max, dim=1, clear=False, **op("ROW_MAX"))
                for i in T.Parallel(BLOCK_M, **op("SCALE")):
                    scale[i] = T.exp2((old_max[i] - row_max[i]) * factor)
                for i, j in T.Parallel(BLOCK_M, BLOCK_N, **op("EXP")):
                    s[i, j] = T.exp2(s[i, j] * factor - row_max[i] * factor)
                T.reduce_sum(s, tile_sum, dim=1, **op("TILE_SUM"))
                for i in T.Parallel(BLOCK_M, **op("ROW_SUM")):
                    row_sum[i] = row_sum[i] * scale[i] + tile_sum[i]
                T.copy(s, p, **op("CAST"))
                for i, j in T.Parallel(BLOCK_M, DV, **op("RESCALE")):
                    acc[i, j] *= scale[i]
                T.copy(v[batch, head // (H // HK), block * BLOCK_N, 0], v_shared, **op("COPY_V"))
                product(p, v_shared, acc, **op("PV", **rows))
                if ROLES:
                    with T.ws_op("PV_DONE"):
                        wait_for_values(acc)
            if ROLES:
                with T.ws_op("LAST_DONE"):
                    wait_for_values(acc)
            for i, j in T.Parallel(BLOCK_M, DV, **op("DIVIDE")):
                acc[i, j] = acc[i, j] / row_sum[i]
            T.copy(acc, y[batch, head, first_row(bx, SQ, causal), 0], **op("STORE"))

    return attention


TURN = 8
"""The first of the named barriers that pass the turn on; TileLang itself counts up from 3."""
STORE = 12
"""The first of those of the threads of a group, which store its result together."""
ROWS = 64
"""Queries of a group: those of one instruction."""


def place_of(index, tiles, heads, causal):
    """The tile of queries and the head that stand at an index of the work: where it is causal the longest come first.

    With all heads abreast no long tile starts late, but keys and values are then read from the L2 cache, or from
    memory, by tiles that are far apart.
    """
    abreast = min(HEADS_ABREAST, heads)
    section, rest = index // (abreast * tiles), index % (abreast * tiles)
    # The last section may have fewer heads.
    width = T.min(abreast, heads - section * abreast) if heads % abreast else abreast
    tile, head = rest // width, section * abreast + rest % width
    return (tiles - 1 - tile if causal else tile), head


def steps_in_turns():
    """A group's program of one iteration, and the iterations that the product with V is behind.

    A turn lasts while the products before the softmax are issued.
    """
    names, behind = computing_order()
    in_turn = [name for name in names[: names.index("ROW_MAX")] if name in ("QK", "PV")]
    steps, unread = [], False
    for name in names:
        if unread and name in ("CAST", "RESCALE"):
            steps, unread = [*steps, "PV_DONE"], False
        before = {in_turn[0]: ["TAKE_TURN"], "ROW_MAX": ["QK_DONE", "MASK"]}.get(name, [])
        steps += [*before, name, *(["PASS_TURN"] if name == in_turn[-1] else [])]
        unread |= name == "PV"
    return [*steps, *(["PV_DONE"] if unread else [])], behind


def groups_in_turns(B, H, HK, SQ, SK, D, DV, causal, dtype, factor):
    """A program for each group of four warps."""
    groups = BLOCK_M // ROWS
    steps, behind = steps_in_turns()
    # Until the second iteration there is no product with V, and nothing to scale.
    first_steps = [step for step in steps if step not in ("PV", "PV_DONE", "RESCALE")]
    policy = T.GemmWarpPolicy.FullRow

    tiles_of_queries = (SQ + BLOCK_M - 1) // BLOCK_M
    total = tiles_of_queries * B * H
    programs = min(WORKERS, total) if WORKERS else total
    rounds = (total + programs - 1) // programs

    def index_of(lap, worker):
        # In every other round the other way, so that who had the longest tile gets the shortest.
        return lap * programs + worker + lap % 2 * (programs - 1 - 2 * worker)

    def local_numbers(count):
        return tuple(T.alloc_local((1,), "int32") for _ in range(count))

    @T.macro
    def find_work(index, tile, blocks, head, batch):
        # Kept, since TileLang would divide again at every use, and fails to bound remainders at some sizes.
        number, of_all = place_of(index, tiles_of_queries, B * H, causal)
        tile[0] = number
        blocks[0] = T.ceildiv(T.min(SK, (number + 1) * BLOCK_M) if causal else SK, BLOCK_N)
        head[0] = of_all % H
        batch[0] = of_all // H

    # `before` tiles of keys belong to earlier tiles of queries.
    @T.macro
    def load(source, shared, full, empty, block, before, kv_head, batch):
        number = before[0] + block
        T.barrier_wait(empty[number % DEPTH], (number // DEPTH + 1) % 2)
        T.tma_copy(
            source[batch, kv_head, block * BLOCK_N, 0], shared[number % DEPTH, :, :],
            barrier=full[number % DEPTH],
        )  # fmt: skip
        if T.shuffle_elect(32):
            T.barrier_arrive(full[number % DEPTH])

    @T.macro
    def load_queries(q, q_shared, q_full, q_empty, lap, row, head, batch):
        # A tuple, since a range would be a loop of the kernel.
        for group in tuple(range(groups)):
            if rounds > 1:
                T.barrier_wait(q_empty[group], (lap + 1) % 2)
            T.tma_copy(q[batch, head, row + group * ROWS, 0], q_shared[group, :, :], barrier=q_full[group])
            if T.shuffle_elect(32):
                T.barrier_arrive(q_full[group])

    @T.macro
    def produce(worker, sources, q_shared, tiles, q_full, q_empty, full, empty):
        q, k, v = sources
        (before, index), work = local_numbers(2), local_numbers(4)
        before[0] = 0
        for lap in T.serial(rounds):
            index[0] = index_of(lap, worker)
            if index[0] < total:
                find_work(index[0], *work)
                tile, blocks, head, batch = (one[0] for one in work)
                # The first tile of keys, whose room is free before that of the queries, does not wait for it.
                for copy in loading_order():
                    which = "KV".index(copy[-1])
                    load((k, v)[which], tiles[which], full[which], empty[which], 0, before, head // (H // HK), batch)
                    if copy == loading_order()[0]:
                        load_queries(q, q_shared, q_full, q_empty, lap, tile * BLOCK_M, head, batch)
                for block in T.serial(1, blocks):
                    for copy in loading_order():
                        which = "KV".index(copy[-1])
                        load(
                            (k, v)[which], tiles[which], full[which], empty[which], block, before, head // (H // HK),
                            batch,
                        )  # fmt: skip
                before[0] = before[0] + blocks

    @T.macro
    def mask(s, block, first):
        # Only tiles at the end, or on the diagonal, hold keys that are masked.
        if (block + 1) * BLOCK_N > (T.min(SK, first + 1) if causal else SK):
            for i, j in T.Parallel(ROWS, BLOCK_N):
                last = T.min(SK - 1, first + i) if causal else SK - 1
                s[i, j] = T.if_then_else(block * BLOCK_N + j <= last, s[i, j], -T.infinity("float32"))

    @T.macro
    def compute(steps, block, blocks, before, group, first, q_shared, q_empty, tiles, full, empty, results):
        k_shared, v_shared = tiles
        k_full, v_full = full
        k_empty, v_empty = empty
        s, p, acc, row_max, old_max, scale, tile_sum, row_sum = results
        number = before[0] + block
        for step in steps:
            if step == "TAKE_TURN":
                T.sync_threads(TURN + group, 256)
            if step == "QK":
                T.barrier_wait(k_full[number % DEPTH], number // DEPTH % 2)
                T.wgmma_gemm(
                    q_shared[group, :, :], k_shared[number % DEPTH, :, :], s, transpose_B=True, policy=policy,
                    clear_accum=True,
                )  # fmt: skip
            if step == "PV":
                T.barrier_wait(v_full[(number - behind) % DEPTH], (number - behind) // DEPTH % 2)
                T.wgmma_gemm(p, v_shared[(number - behind) % DEPTH, :, :], acc, policy=policy)
            if step == "PASS_TURN":
                T.named_barrier_arrive(TURN + (group + 1) % groups, 256)
            if step == "QK_DONE":
                # A product with V that was issued later may still be under way.
                T.wait_wgmma(1 if "PV" in steps[steps.index("QK") : steps.index("QK_DONE")] else 0)
                T.warpgroup_fence_operand(s, num_regs=ROWS * BLOCK_N // 128)
                if T.shuffle_elect(32):
                    T.barrier_arrive(k_empty[number % DEPTH])
                # Each `if` by itself, since the first is of this file and the others are of the kernel.
                if rounds > 1:  # noqa: SIM102
                    if block == blocks - 1:  # noqa: SIM102
                        if T.shuffle_elect(32):
                            T.barrier_arrive(q_empty[group])
            if step == "PV_DONE":
                if WAIT_IN_PLACE and "EXP" in steps[: steps.index("PV_DONE")]:
                    # The branch: a wait that is over, since the values are still there.
                    T.warpgroup_fence_operand(s, num_regs=ROWS * BLOCK_N // 128)
                    T.barrier_wait(v_full[(number - behind) % DEPTH], (number - behind) // DEPTH % 2)
                T.wait_wgmma(0)
                T.warpgroup_fence_operand(acc, num_regs=ROWS * DV // 128)
                if T.shuffle_elect(32):
                    T.barrier_arrive(v_empty[(number - behind) % DEPTH])
            if step == "MASK":
                mask(s, block, first)
            if step == "ROW_MAX":
                T.copy(row_max, old_max)
                T.reduce_max(s, row_max, dim=1, clear=False)
            if step == "SCALE":
                for i in T.Parallel(ROWS):
                    scale[i] = T.exp2((old_max[i] - row_max[i]) * factor)
            if step == "EXP":
                for i, j in T.Parallel(ROWS, BLOCK_N):
                    s[i, j] = T.exp2(s[i, j] * factor - row_max[i] * factor)
            if step == "ROW_SUM":
                T.reduce_sum(s, tile_sum, dim=1)
                for i in T.Parallel(ROWS):
                    row_sum[i] = row_sum[i] * scale[i] + tile_sum[i]
            if step == "CAST":
                T.copy(s, p)
            if step == "RESCALE":
                for i, j in T.Parallel(ROWS, DV):
                    acc[i, j] *= scale[i]

    @T.macro
    def store(acc, y_shared, y, group, tile, head, batch):
        # In numbers of tiles, so that TileLang knows which rows there are.
        first = tile * BLOCK_M + group * ROWS
        if BULK_STORE:
            # When the tile before has left the buffer.
            T.tma_store_wait(0)
            T.sync_threads(STORE + group, 128)
            T.copy(acc, y_shared[group, :, :])
            T.fence_proxy_async()
            T.sync_threads(STORE + group, 128)
            T.tma_copy(y_shared[group, :, :], y[batch, head, first, 0])
        else:
            T.copy(acc, y[batch, head, tile * BLOCK_M + group * ROWS, 0])

    @T.macro
    def consume(group, worker, q_shared, y_shared, tiles, q_full, q_empty, full, empty, y):
        s = T.alloc_fragment((ROWS, BLOCK_N), "float32")
        p = T.alloc_fragment((ROWS, BLOCK_N), dtype)
        acc = T.alloc_fragment((ROWS, DV), "float32")
        row_max = T.alloc_fragment((ROWS,), "float32")
        old_max = T.alloc_fragment((ROWS,), "float32")
        scale = T.alloc_fragment((ROWS,), "float32")
        tile_sum = T.alloc_fragment((ROWS,), "float32")
        row_sum = T.alloc_fragment((ROWS,), "float32")
        (before, index), work = local_numbers(2), local_numbers(4)
        results = (s, p, acc, row_max, old_max, scale, tile_sum, row_sum)
        if CONSUMER_REGS:
            T.set_max_nreg(CONSUMER_REGS, 1)
        before[0] = 0
        if group == groups - 1:
            T.named_barrier_arrive(TURN, 256)
        for lap in T.serial(rounds):
            index[0] = index_of(lap, worker)
            if index[0] < total:
                find_work(index[0], *work)
                tile, blocks, head, batch = (one[0] for one in work)
                first = tile * BLOCK_M + group * ROWS
                T.clear(acc)
                T.clear(row_sum)
                T.fill(row_max, -T.infinity("float32"))
                T.barrier_wait(q_full[group], lap % 2)
                if behind:
                    compute(
                        first_steps, 0, blocks, before, group, first, q_shared, q_empty, tiles, full, empty, results
                    )
                for block in T.serial(behind, blocks):
                    compute(steps, block, blocks, before, group, first, q_shared, q_empty, tiles, full, empty, results)
                if behind:
                    compute(
                        ["PV", "PV_DONE"], blocks, blocks, before, group, first, q_shared, q_empty, tiles, full, empty,
                        results,
                    )  # fmt: skip
                before[0] = before[0] + blocks
                for i, j in T.Parallel(ROWS, DV):
                    acc[i, j] = acc[i, j] / row_sum[i]
                store(acc, y_shared, y, group, tile, head, batch)
        if BULK_STORE:
            T.tma_store_wait(0)
        # The turn that the last group has passed on at the end: each barrier ends as it began.
        if group == 0:
            T.sync_threads(TURN, 256)

    @T.prim_func
    def attention(
        q: T.Tensor((B, H, SQ, D), dtype),
        k: T.Tensor((B, HK, SK, D), dtype),
        v: T.Tensor((B, HK, SK, DV), dtype),
        y: T.Tensor((B, H, SQ, DV), dtype),
    ):
        with T.Kernel(programs, threads=THREADS + 128) as worker:
            q_shared = T.alloc_shared((groups, ROWS, D), dtype)
            k_shared = T.alloc_shared((DEPTH, BLOCK_N, D), dtype)
            v_shared = T.alloc_shared((DEPTH, BLOCK_N, DV), dtype)
            y_shared = T.alloc_shared((groups, ROWS, DV), dtype) if BULK_STORE else q_shared
            # The thread that issues a load arrives, and the bytes of the tile; then a thread of each computing warp.
            q_full = T.alloc_barrier([1] * groups)
            q_empty = T.alloc_barrier([4] * groups)
            k_full = T.alloc_barrier([1] * DEPTH)
            v_full = T.alloc_barrier([1] * DEPTH)
            k_empty = T.alloc_barrier([THREADS // 32] * DEPTH)
            v_empty = T.alloc_barrier([THREADS // 32] * DEPTH)
            tiles, full, empty = (k_shared, v_shared), (k_full, v_full), (k_empty, v_empty)
            # One if with all roles: the registers can then be moved, and no barrier of all threads stands between.
            thread = T.get_thread_binding()
            if thread < 128:
                if CONSUMER_REGS:
                    T.set_max_nreg(PRODUCER_REGS, 0)
                # One warp is enough.
                if thread < 32:
                    produce(worker, (q, k, v), q_shared, tiles, q_full, q_empty, full, empty)
            elif thread < 256:
                consume(0, worker, q_shared, y_shared, tiles, q_full, q_empty, full, empty, y)
            elif thread < 384:
                consume(1, worker, q_shared, y_shared, tiles, q_full, q_empty, full, empty, y)
            elif groups == 3:
                consume(2, worker, q_shared, y_shared, tiles, q_full, q_empty, full, empty, y)

    return attention


@functools.lru_cache
def build_attention(B, H, HK, SQ, SK, D, DV, causal, dtype):
    # exp(x) = exp2(x log2 e): the scale takes the factor in, and the hardware has exp2.
    factor = math.log2(math.e) / math.sqrt(D)
    program = (groups_in_turns if TURNS else one_program)(B, H, HK, SQ, SK, D, DV, causal, dtype, factor)
    # Else exp2 and the division also serve the smallest numbers, at twice as many instructions in all.
    # Copies know their bounds; TileLang would check each row and head again.
    passes = {"tl.enable_fast_math": True, "tl.disable_safe_memory_legalize": True}
    return tilelang.compile(program, out_idx=[-1], target=TARGET, pass_configs=passes)


class ModelNew(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        B, H, SQ, D = q.shape
        _, HK, SK, DV = v.shape
        kernel = build_attention(B, H, HK, SQ, SK, D, DV, self.causal, str(q.dtype).removeprefix("torch."))
        return kernel(q.contiguous(), k.contiguous(), v.contiguous())
