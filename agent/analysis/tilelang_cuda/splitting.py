"""Code that rules for TileLang on CUDA generate: fp32 products as three of split operands, and search spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....core import Parameter
from ....core.devices.nvidia import HOPPER

SHARED_BYTES = HOPPER.block_shared_bytes
"""Shared memory of a block in bytes, on sm_90."""
POLICIES = ("Square", "FullRow", "FullCol")
"""How the warps share a product's tile (`T.GemmWarpPolicy`)."""
NAMES = ("PARTS", "POLICY", "PROMOTE", "build_split", "build_turned_split")
"""Marks a file whose products are already split."""
_SPLIT = '''
@functools.lru_cache
def build_split(rows, columns):
    """Splits fp32 into a high part, which is rounded, and a low part: what that rounding lost."""
    parts = getattr(T, PARTS)

    @T.prim_func
    def split(
        x: T.Tensor((rows, columns), "float32"),
        high: T.Tensor((rows, columns), parts),
        low: T.Tensor((rows, columns), parts),
    ):
        with T.Kernel(T.ceildiv(columns, 1024), rows, threads=128) as (bx, by):
            value = T.alloc_fragment((1024,), "float32")
            first = T.alloc_fragment((1024,), parts)
            second = T.alloc_fragment((1024,), parts)
            T.copy(x[by, bx * 1024], value)
            for i in T.Parallel(1024):
                first[i] = T.cast(value[i], parts)
                second[i] = T.cast(value[i] - T.cast(T.cast(value[i], parts), "float32"), parts)
            T.copy(first, high[by, bx * 1024])
            T.copy(second, low[by, bx * 1024])

    return tilelang.compile(split, out_idx=[1, 2], target=TARGET)
'''
_TURNED_SPLIT = '''
@functools.lru_cache
def build_turned_split(rows, columns):
    """Splits a matrix like build_split, and turns it: tensor cores want both operands along the axis of the sum."""
    parts = getattr(T, PARTS)

    @T.prim_func
    def turned_split(
        x: T.Tensor((rows, columns), "float32"),
        high: T.Tensor((columns, rows), parts),
        low: T.Tensor((columns, rows), parts),
    ):
        with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(rows, 64), threads=256) as (bx, by):
            # Padded against bank conflicts.
            tile = T.alloc_shared((64, 65), "float32")
            first = T.alloc_fragment((64, 64), parts)
            second = T.alloc_fragment((64, 64), parts)
            for r, c in T.Parallel(64, 64):
                inside = (by * 64 + r < rows) & (bx * 64 + c < columns)
                tile[r, c] = T.if_then_else(inside, x[by * 64 + r, bx * 64 + c], 0.0)
            for c, r in T.Parallel(64, 64):
                first[c, r] = T.cast(tile[r, c], parts)
                second[c, r] = T.cast(tile[r, c] - T.cast(T.cast(tile[r, c], parts), "float32"), parts)
            T.copy(first, high[bx * 64, by * 64])
            T.copy(second, low[bx * 64, by * 64])

    return tilelang.compile(turned_split, out_idx=[1, 2], target=TARGET)
'''
SPLITTERS = {False: ("build_split", _SPLIT), True: ("build_turned_split", _TURNED_SPLIT)}
"""The functions of a file that split a matrix, by whether they turn it: their names and definitions."""
STEPS = {"bfloat16": 64, "tfloat32": 32}
"""Initial tile size along K: rows of 128 bytes, which the shared-memory swizzle expects."""
_VALUES = {"m": (64, 128, 256), "n": (64, 128, 256), "k": (32, 64), "threads": (128, 256, 512), "stages": (1, 2, 3, 4)}


def parameters_of(names: Mapping[str, str], start: Mapping[str, int], parts: str, policy: str) -> tuple[Parameter, ...]:
    """Return the parameters of a product, beginning with `parts`.

    `names` are its constants m, n, k, threads and stages, `start` their values but for k's.
    """
    start = {**start, "k": STEPS[parts]}
    return (
        *(Parameter(names[role], values, start[role]) for role, values in _VALUES.items()),
        Parameter("PARTS", tuple(STEPS), parts),
        Parameter("POLICY", POLICIES, policy),
        Parameter("PROMOTE", (False, True), True),
    )


def constraints_of(names: Mapping[str, str]) -> tuple[str, ...]:
    """Return what keeps accumulators within the registers, and the tiles of all stages within shared memory."""
    m, n, k, threads, stages = (names[role] for role in _VALUES)
    return (
        f"{m} * {n} * (2 if PROMOTE else 1) <= 128 * {threads}",
        f"{m} * {n} >= 16 * {threads}",
        f"POLICY != 'FullRow' or 2 * {m} >= {threads}",
        f"({m} + {n}) * {k} * {stages} * (4 if PARTS == 'bfloat16' else 8) <= {SHARED_BYTES}",
    )


def three_products(
    left: Sequence[str], right: Sequence[str], sums: Sequence[str], sides: Sequence[str], policy: str
) -> str:
    """Return the statements that multiply two split tiles, both with the axis of the sum last.

    `left` and `right` are their high and low parts, `sums` the accumulator and the fragment for one step, `sides` the
    accumulator's.
    """
    (a, a_low), (b, b_low), (acc, part) = left, right, sums

    def three(into: str, clear: str) -> list[str]:
        pairs = zip([(a_low, b), (a, b_low), (a, b)], [clear, "", ""], strict=True)
        return [f"    T.gemm({x}, {y}, {into}, transpose_B=True, policy={policy}{end})" for (x, y), end in pairs]

    lines = [
        "if PROMOTE:",
        "    # Tensor cores cut off their sums: over a long axis, in one accumulator, that adds up.",
        *three(part, ", clear_accum=True"),
        f"    for i, j in T.Parallel({', '.join(sides)}):",
        f"        {acc}[i, j] += {part}[i, j]",
        "else:",
        *three(acc, ""),
    ]
    return "\n".join(lines) + "\n"
