"""A Triton kernel (fp32 linear layer) on its way to the tensor cores: TF32 alone is wrong, three products are right."""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.corpus import find_kernel

from ...openai_server import ScriptStep
from .telling import READY, analysis, changed, submit, submit_tuned, use

SHIPPED = find_kernel("2_12", "triton").read().source

WRONG = changed(SHIPPED, ('input_precision="ieee"', 'input_precision="tf32"'))
RIGHT = changed(SHIPPED, ('input_precision="ieee"', 'input_precision="tf32x3"'))

_INDICES = """    # 64-bit indices: the offset of an element can exceed 2^31 in a large matrix.
    offs_m = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    offs_n = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
"""
_HOISTED_INDICES = """    start_m = tl.program_id(0) * BLOCK_M
    start_n = tl.program_id(1) * BLOCK_N
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = start_n + tl.arange(0, BLOCK_N)
"""
_POINTERS = """    x_ptrs = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w_ptrs = w_ptr + offs_n[None, :] * K + offs_k[:, None]
"""
_HOISTED_POINTERS = """    # Only the start of a tile needs 64 bits; the offsets within it stay as they are.
    x_tile = x_ptr + start_m.to(tl.int64) * K
    w_tile = w_ptr + start_n.to(tl.int64) * K
    x_offs = tl.arange(0, BLOCK_M)[:, None] * K + offs_k[None, :]
    w_offs = tl.arange(0, BLOCK_N)[None, :] * K + offs_k[:, None]
"""
_LOADS = """        x = tl.load(x_ptrs, mask=mask_m & (offs_k[None, :] < K - k), other=0.0)
        w = tl.load(w_ptrs, mask=mask_n & (offs_k[:, None] < K - k), other=0.0)
"""
_UNMASKED_LOADS = """        if WHOLE_TILES:
            x = tl.load(x_tile + x_offs)
            w = tl.load(w_tile + w_offs)
        else:
            x = tl.load(x_tile + x_offs, mask=mask_m & (offs_k[None, :] < K - k), other=0.0)
            w = tl.load(w_tile + w_offs, mask=mask_n & (offs_k[:, None] < K - k), other=0.0)
"""
HOISTED = changed(
    RIGHT,
    ("    BLOCK_K: tl.constexpr,\n", "    BLOCK_K: tl.constexpr,\n    WHOLE_TILES: tl.constexpr,\n"),
    (_INDICES, _HOISTED_INDICES),
    (_POINTERS, _HOISTED_POINTERS),
    (_LOADS, _UNMASKED_LOADS),
    (
        "        x_ptrs += BLOCK_K\n        w_ptrs += BLOCK_K\n",
        "        x_tile += BLOCK_K\n        w_tile += BLOCK_K\n",
    ),
    ("y_ptr + offs_m[:, None] * N", "y_ptr + offs_m[:, None].to(tl.int64) * N"),
    (
        "            BLOCK_K=BLOCK_K,\n",
        "            BLOCK_K=BLOCK_K,\n            WHOLE_TILES=M % BLOCK_M == N % BLOCK_N == K % BLOCK_K == 0,\n",
    ),
)

SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [16, 32, 64],
    "NUM_WARPS": [4, 8],
    "NUM_STAGES": [2, 3, 4],
}
CONSTRAINTS = [
    # Two tiles of sums lie in registers: the running one and that of one step over K.
    "BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 64",
    "BLOCK_K <= 32 or BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 32",
    # A group of four warps multiplies 64 rows.
    "BLOCK_M >= NUM_WARPS * 16",
    # Both parts of the weight's tile lie in shared memory besides the stages.
    "((BLOCK_M + BLOCK_N) * (NUM_STAGES - 1) + 2 * BLOCK_N) * BLOCK_K * 4 <= 227 * 1024",
]

STEPS: Sequence[ScriptStep] = (
    READY,
    analysis(
        "compute",
        ["every product is an fp32 multiply-add on the CUDA cores", "the tensor cores never run"],
        ("tensor-cores", "tl.dot", 'input_precision="ieee" keeps the products off the tensor cores', 3.0),
        ("tiling", "BLOCK_M, BLOCK_N", "a tile of 64 x 64 reuses each loaded value only 64 times", 1.5),
    ),
    use("search_examples", query="fp32 matrix product on the tensor cores", technique="tensor-cores"),
    submit(WRONG, "TF32 products", "The tensor cores multiply TF32 operands many times as fast as FMA does fp32."),
    submit(
        RIGHT,
        "three TF32 products",
        "TF32 keeps 10 bits of the mantissa, which misses the tolerance. Each operand is split into a high and a low "
        "part, and three products of parts give nearly fp32.",
    ),
    analysis(
        "compute",
        ["three products per step, with the splitting of both tiles between them", "the tile was chosen for FMA"],
        ("tune", "BLOCK_M ... NUM_STAGES", "the best tile for the tensor cores is another than for FMA", 1.4),
        ("hoisting", "the loads in the loop", "64-bit pointers per element and masks that are always true", 1.05),
    ),
    use("tune", kernel=RIGHT, space=SPACE, tuner="portfolio", trials=24, constraints=CONSTRAINTS),
    submit_tuned(
        HOISTED,
        "tuned tile, hoisted indices",
        "The tuned constants; and 32-bit offsets that no step changes, with no masks where all tiles are whole, leave "
        "registers and issue slots to the products.",
    ),
)
"""The whole conversation; the second analysis and what follows are a second turn's."""
