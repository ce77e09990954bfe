"""Attention whose loop runs as a modulo schedule says: each operation has a cycle, the loop an interval.

Order in the body is the cycle modulo the interval, the pipeline stage the cycle divided by it. Sequence lengths may be
any: keys past the end, and after the query where it is causal, start from -inf.

With ROLES four more warps load the keys and values, and the others compute: `T.annotate_ws_schedule` gets both
programs, each in the order of the cycles. The products are then asynchronous.
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

# Cycles of the model.
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

# Four more warps that load, DEPTH tiles ahead; registers of a thread, 0 for those that it starts with.
ROLES = False
DEPTH = 2
CONSUMER_REGS = 240
PRODUCER_REGS = 24

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


def schedule_of_roles(q_shared, k_shared, v_shared):
    """Who does what, in which order. What waits for a product stands before the first use of its result."""
    sync, warps = T.WSSync, THREADS // 32
    names, behind = computing_order()
    # The loads' order, as that of their cycles.
    loads = [("k", "COPY_K"), ("v", "COPY_V")][:: 1 if (COPY_K % INTERVAL, 0) < (COPY_V % INTERVAL, 1) else -1]
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


@functools.lru_cache
def build_attention(B, H, HK, SQ, SK, D, DV, causal, dtype):
    # exp(x) = exp2(x log2 e): the scale takes the factor in, and the hardware has exp2.
    factor = math.log2(math.e) / math.sqrt(D)
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
            T.copy(q[batch, head, bx * BLOCK_M, 0], q_shared, **op("LOAD_Q"))
            T.clear(acc, **op("ZERO"))
            T.clear(row_sum, **op("ZERO_SUM"))
            T.fill(row_max, -T.infinity("float32"), **op("NO_MAX"))
            keys = T.min(SK, (bx + 1) * BLOCK_M) if causal else SK
            blocks = T.ceildiv(keys, BLOCK_N)
            for block in T.serial(blocks, **op("LOOP")) if ROLES else T.Pipelined(blocks, **how):
                T.copy(k[batch, head // (H // HK), block * BLOCK_N, 0], k_shared, **op("COPY_K"))
                for i, j in T.Parallel(BLOCK_M, BLOCK_N, **op("MASK")):
                    last = T.min(SK - 1, bx * BLOCK_M + i) if causal else SK - 1
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
            T.copy(acc, y[batch, head, bx * BLOCK_M, 0], **op("STORE"))

    # Else exp2 and the division also serve the smallest numbers, at twice as many instructions in all.
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
