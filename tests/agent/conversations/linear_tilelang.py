"""A TileLang kernel (fp32 linear layer) on its way to the tensor cores: TF32 is wrong, three products are right."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.corpus import find_kernel

from ...openai_server import ScriptStep
from .telling import READY, analysis, changed, submit, submit_tuned, use

SHIPPED = find_kernel("2_12", "tilelang").read().source

_MODEL = SHIPPED[SHIPPED.index("class ModelNew") :]

WRONG = f'''"""Linear layer, product with a constant and leaky ReLU: a tensor core product with the rest as epilogue."""

import functools

import tilelang
import tilelang.language as T
import torch
from torch import nn

TARGET = "cuda"

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 32
THREADS = 256
NUM_STAGES = 2
MIN_BLOCKS = 1


@functools.lru_cache
def build(M, N, K, multiplier, negative_slope):
    @T.prim_func
    def linear_leaky_relu(
        x: T.Tensor((M, K), "float32"),
        weight: T.Tensor((N, K), "float32"),
        bias: T.Tensor((N,), "float32"),
        y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, BLOCK_N), T.ceildiv(M, BLOCK_M), threads=THREADS) as (bx, by):
            x_shared = T.alloc_shared((BLOCK_M, BLOCK_K), "float32")
            w_shared = T.alloc_shared((BLOCK_N, BLOCK_K), "float32")
            bias_local = T.alloc_fragment((BLOCK_N,), "float32")
            acc = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")
            T.annotate_min_blocks_per_sm(MIN_BLOCKS)
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(K, BLOCK_K), num_stages=NUM_STAGES):
                # cp.async rather than TMA: with TMA the kernel is warp-specialized and one block fills an SM.
                T.copy(x[by * BLOCK_M, ko * BLOCK_K], x_shared, disable_tma=True)
                T.copy(weight[bx * BLOCK_N, ko * BLOCK_K], w_shared, disable_tma=True)
                T.gemm(x_shared, w_shared, acc, transpose_B=True)
            T.copy(bias[bx * BLOCK_N], bias_local)
            for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                value = (acc[i, j] + bias_local[j]) * multiplier
                acc[i, j] = T.if_then_else(value > 0, value, value * negative_slope)
            T.copy(acc, y[by * BLOCK_M, bx * BLOCK_N])

    return tilelang.compile(linear_leaky_relu, out_idx=[-1], target=TARGET)


{_MODEL}'''

_SPLIT = """    # fp32 has 13 bits of mantissa more than TF32: the high part rounds, the low part is what that lost.
    def high(value):
        return T.cast(value, T.tfloat32)

    def low(value):
        return T.cast(value - T.cast(high(value), "float32"), T.tfloat32)

    @T.prim_func
"""
_X_PARTS = """            x_high = T.alloc_shared((BLOCK_M, BLOCK_K), T.tfloat32)
            x_low = T.alloc_shared((BLOCK_M, BLOCK_K), T.tfloat32)
"""
_W_PARTS = """            w_high = T.alloc_shared((BLOCK_N, BLOCK_K), T.tfloat32)
            w_low = T.alloc_shared((BLOCK_N, BLOCK_K), T.tfloat32)
"""
_BIAS = '            bias_local = T.alloc_fragment((BLOCK_N,), "float32")\n'
_GEMM = "                T.gemm(x_shared, w_shared, acc, transpose_B=True)\n"
_PRODUCTS = """                for i, k in T.Parallel(BLOCK_M, BLOCK_K):
                    x_high[i, k] = high(x_shared[i, k])
                    x_low[i, k] = low(x_shared[i, k])
                for j, k in T.Parallel(BLOCK_N, BLOCK_K):
                    w_high[j, k] = high(w_shared[j, k])
                    w_low[j, k] = low(w_shared[j, k])
                T.gemm(x_low, w_high, part, transpose_B=True, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
                T.gemm(x_high, w_low, part, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(x_high, w_high, part, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                # Tensor cores truncate their sums: over all of K, in one accumulator, that adds up.
                for i, j in T.Parallel(BLOCK_M, BLOCK_N):
                    acc[i, j] += part[i, j]
"""
RIGHT = changed(
    WRONG,
    ("    @T.prim_func\n", _SPLIT),
    (_BIAS, _X_PARTS + _W_PARTS + _BIAS + '            part = T.alloc_fragment((BLOCK_M, BLOCK_N), "float32")\n'),
    (_GEMM, _PRODUCTS),
)
IN_REGISTERS = changed(
    RIGHT,
    (_X_PARTS, _X_PARTS.replace("alloc_shared", "alloc_fragment")),
    (
        "            T.annotate_min_blocks_per_sm(MIN_BLOCKS)\n",
        "            T.annotate_min_blocks_per_sm(MIN_BLOCKS)\n"
        "            # The threads read this tile as tensor cores want it: swizzled, without bank conflicts.\n"
        "            T.annotate_layout({x_shared: tilelang.layout.make_swizzled_layout(x_shared)})\n"
        "            # Down the rows of y first: the blocks that run at once share tiles of the larger operand.\n"
        '            T.use_swizzle(16, order="row")\n',
    ),
)

SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [16, 32, 64],
    "THREADS": [128, 256],
    "NUM_STAGES": [2, 3],
    "MIN_BLOCKS": [1, 2, 3],
}
CONSTRAINTS = [
    # A group of four warps multiplies 64 rows.
    "2 * BLOCK_M >= THREADS",
    # Registers of a thread, and of the blocks of one multiprocessor: two tiles of sums, both parts of a tile of x.
    "2 * BLOCK_M * (BLOCK_N + BLOCK_K) <= 200 * THREADS",
    "MIN_BLOCKS * (2 * BLOCK_M * (BLOCK_N + BLOCK_K) + 60 * THREADS) <= 65536",
    # Shared memory: the stages and both parts of both tiles.
    "MIN_BLOCKS * ((NUM_STAGES + 2) * (BLOCK_M + BLOCK_N) * BLOCK_K * 4 + 1024) <= 228 * 1024",
]

STEPS: Sequence[ScriptStep] = (
    READY,
    analysis(
        "compute",
        ["every product is an fp32 multiply-add on the CUDA cores", "the tensor cores never run"],
        ("tensor-cores", "the loops over k, i, j", "T.gemm multiplies on the tensor cores", 2.0),
        ("tiling", "BLOCK_K", "fewer barriers per product", 1.1),
    ),
    use("search_examples", query="fp32 matrix product on the tensor cores", technique="tensor-cores"),
    submit(WRONG, "TF32 products", "T.gemm takes the loops over a tile to the tensor cores."),
    submit(
        RIGHT,
        "three TF32 products",
        "T.gemm rounds fp32 to TF32, which misses the tolerance. Each operand is split into a high and a low part, "
        "and three products of parts give nearly fp32.",
    ),
    analysis(
        "compute",
        ["three products per step, and both tiles are split and stored again before them"],
        ("tune", "BLOCK_M ... MIN_BLOCKS", "several smaller blocks per SM overlap splitting and products", 1.3),
        ("registers", "x_high, x_low", "operands in registers need no shared memory traffic", 1.15),
        ("block-order", "the grid", "the larger operand is read once instead of once per row of blocks", 1.05),
    ),
    use("tune", kernel=RIGHT, space=SPACE, tuner="portfolio", trials=24, constraints=CONSTRAINTS),
    submit_tuned(
        IN_REGISTERS,
        "tuned tile, x in registers",
        "The tuned constants; and the parts of x stay in registers, which saves shared memory and its traffic, while "
        "blocks in panels read the weight once.",
    ),
)
"""The whole conversation; the second analysis and what follows are a second turn's."""
