"""Tiles of products: the choices, and an analytic start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from ..region import MULTIPROCESSORS, SHARED_BYTES, SPLITS, STAGES, WARPS, LaunchParameter, power_above, powers

LARGEST_M, LARGEST_N, LARGEST_K = 128, 256, 128
_MOST_SPLITS, _LEAST_SHARE = 32, 256
"""Programs that share a sum, and the terms of each at the start."""
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
    """Number of products."""
    operand_bytes: int
    operands: int
    """Number of different tiles that a step reads."""
    shared: bool = True
    """Whether programs may share sums."""


def space(sizes: ProductSizes) -> tuple[dict[str, LaunchParameter], Sequence[str]]:
    """Return parameters and constraints.

    The start is the largest tile with which there are tiles for all multiprocessors, and accumulators for all products.
    """
    most_m, most_n = (
        min(most, max(16, power_above(size))) for most, size in ((LARGEST_M, sizes.m), (LARGEST_N, sizes.n))
    )
    start_m, start_n = min(most_m, 128), min(most_n, 128 if sizes.count > 1 or sizes.operand_bytes == 4 else 256)
    while start_n > 32 and sizes.batch * ceil(sizes.m / start_m) * ceil(sizes.n / start_n) < MULTIPROCESSORS:
        if start_n > start_m or start_m <= 16:
            start_n //= 2
        else:
            start_m = max(16, start_m // 2)
            if start_m == 16 and start_n <= 64:
                break
    while sizes.count * start_m * start_n > 8 * 32 * _ACCUMULATORS and start_n > 16:
        start_n //= 2
    shared = min(most_m, 64), min(most_n, 64)
    splits = _splits(sizes, start_m, start_n, shared)
    if splits is not None and splits.start != 1:
        start_m, start_n = shared
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
    if splits is not None:
        parameters[SPLITS] = splits
    constraints = [
        f"{sizes.count} * BLOCK_M * BLOCK_N <= {WARPS} * 32 * {_ACCUMULATORS}",
        f"(BLOCK_M + BLOCK_N) * BLOCK_K * {STAGES} * {sizes.operand_bytes * shares} <= {SHARED_BYTES}",
    ]
    return parameters, constraints


def _splits(sizes: ProductSizes, start_m: int, start_n: int, shared: tuple[int, int]) -> LaunchParameter | None:
    """Return the numbers of programs that may share a sum; None if there are enough tiles, or the sum is short.

    The start gives each multiprocessor a program, with tiles of `shared` size, if tiles alone give one to less than two
    thirds of them.
    """

    def tiles(tile_m: int, tile_n: int) -> int:
        return sizes.batch * ceil(sizes.m / tile_m) * ceil(sizes.n / tile_n)

    most, count = min(_MOST_SPLITS, sizes.k // _LEAST_SHARE), tiles(start_m, start_n)
    if not sizes.shared or count >= 2 * MULTIPROCESSORS or most < 2:
        return None
    start = 1
    if 3 * count < 2 * MULTIPROCESSORS:
        count = tiles(*shared)
        while start * 2 <= most and start * count < MULTIPROCESSORS:
            start *= 2
    return LaunchParameter(start, powers(1, _MOST_SPLITS))
