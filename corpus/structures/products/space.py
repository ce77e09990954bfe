"""Tiles of products: the choices, and an analytic start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from ..region import SHARED_BYTES, STAGES, WARPS, LaunchParameter, power_above

LARGEST_M, LARGEST_N, LARGEST_K = 128, 256, 128
_MULTIPROCESSORS = 132
_ACCUMULATORS = 128
"""Registers of a thread that may hold them."""


@dataclass(frozen=True)
class ProductSizes:
    """The sizes of products that one kernel computes."""

    batch: int
    m: int
    n: int
    k: int
    count: int
    """Of the products."""
    operand_bytes: int
    operands: int
    """Of different tiles that a step reads."""


def space(sizes: ProductSizes) -> tuple[dict[str, LaunchParameter], Sequence[str]]:
    """Return parameters and constraints.

    The start is the largest tile with which there are tiles for all multiprocessors, and accumulators for all products.
    """
    most_m, most_n = (
        min(most, max(16, power_above(size))) for most, size in ((LARGEST_M, sizes.m), (LARGEST_N, sizes.n))
    )
    start_m, start_n = min(most_m, 128), min(most_n, 128 if sizes.count > 1 or sizes.operand_bytes == 4 else 256)
    while start_n > 32 and sizes.batch * ceil(sizes.m / start_m) * ceil(sizes.n / start_n) < _MULTIPROCESSORS:
        if start_n > start_m or start_m <= 16:
            start_n //= 2
        else:
            start_m = max(16, start_m // 2)
            if start_m == 16 and start_n <= 64:
                break
    while sizes.count * start_m * start_n > 8 * 32 * _ACCUMULATORS and start_n > 16:
        start_n //= 2
    steps = tuple(step for step in (32, 64, 128) if step <= max(32, power_above(sizes.k)))
    start_k = min(steps[-1], 128 if start_m <= 32 else 64 if sizes.operand_bytes <= 2 else 32)
    warps = 8 if sizes.count * start_m * start_n >= 128 * 128 else 4
    stages = 4 if start_m <= 32 else 3
    shares = max(1, sizes.operands // 2)
    step_bytes = (start_m + start_n) * start_k * sizes.operand_bytes * shares
    while stages > 2 and stages * step_bytes > SHARED_BYTES:
        stages -= 1
    parameters = {
        "BLOCK_M": LaunchParameter(start_m, tuple(size for size in (16, 32, 64, 128) if size <= most_m)),
        "BLOCK_N": LaunchParameter(start_n, tuple(size for size in (16, 32, 64, 128, 256) if size <= most_n)),
        "BLOCK_K": LaunchParameter(start_k, steps),
        "GROUP_M": LaunchParameter(8, (1, 4, 8, 16)) if sizes.m > 4 * start_m else LaunchParameter(8, (8,)),
        WARPS: LaunchParameter(warps, (4, 8)),
        STAGES: LaunchParameter(stages, (2, 3, 4, 5)),
    }
    constraints = [
        f"{sizes.count} * BLOCK_M * BLOCK_N <= {WARPS} * 32 * {_ACCUMULATORS}",
        f"(BLOCK_M + BLOCK_N) * BLOCK_K * {STAGES} * {sizes.operand_bytes * shares} <= {SHARED_BYTES}",
    ]
    return parameters, constraints
