"""What the rules share that compute fp32 products as three of split operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....core import Parameter
from .limits import POLICIES, SHARED_BYTES

CONSTANTS = {"PARTS", "POLICY", "PROMOTE"}
SPLITTER = "build_split"
"""The function of a file that splits a matrix."""
HELPER = '''
@functools.lru_cache
def build_split(rows, columns):
    """Splits fp32 into a high part, which is rounded, and a low part: what that rounding lost."""
    rounded = T.bfloat16 if PARTS == "bfloat16" else T.tfloat32

    @T.prim_func
    def split(
        x: T.Tensor((rows, columns), "float32"),
        high: T.Tensor((rows, columns), PARTS),
        low: T.Tensor((rows, columns), PARTS),
    ):
        with T.Kernel(T.ceildiv(columns, 1024), rows, threads=128) as (bx, by):
            value = T.alloc_fragment((1024,), "float32")
            first = T.alloc_fragment((1024,), PARTS)
            second = T.alloc_fragment((1024,), PARTS)
            T.copy(x[by, bx * 1024], value)
            for i in T.Parallel(1024):
                first[i] = T.cast(T.cast(value[i], rounded), PARTS)
                second[i] = T.cast(value[i] - T.cast(T.cast(value[i], rounded), "float32"), PARTS)
            T.copy(first, high[by, bx * 1024])
            T.copy(second, low[by, bx * 1024])

    return tilelang.compile(split, out_idx=[1, 2], target=TARGET)
'''
_VALUES = {"m": (64, 128, 256), "n": (64, 128, 256), "k": (32, 64), "threads": (128, 256, 512), "stages": (1, 2, 3, 4)}


def parameters_of(names: Mapping[str, str], start: Mapping[str, int], policy: str) -> tuple[Parameter, ...]:
    """Return the parameters of a product: `names` are its constants m, n, k, threads and stages, `start` their values."""
    return (
        *(Parameter(names[role], values, start[role]) for role, values in _VALUES.items()),
        Parameter("PARTS", ("bfloat16", "float32"), "bfloat16"),
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
    left: Sequence[str], right: Sequence[str], sums: Sequence[str], sides: Sequence[str], flags: str, policy: str
) -> str:
    """Return the statements that multiply two split tiles.

    `left` and `right` are their high and low parts, `sums` the accumulator and the fragment for one step, `sides` the
    accumulator's, `flags` the transpositions for T.gemm.
    """
    (a, a_low), (b, b_low), (acc, part) = left, right, sums

    def three(into: str, clear: str) -> list[str]:
        pairs = zip([(a_low, b), (a, b_low), (a, b)], [clear, "", ""], strict=True)
        return [f"    T.gemm({x}, {y}, {into}{flags}, policy={policy}{end})" for (x, y), end in pairs]

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
