"""Tiles of attention: the choices, and an analytic start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Protocol

from ....core.dynamic_size import largest, smallest, typical
from ..lines import WIDE
from ..region import MULTIPROCESSORS, SHARED_BYTES, SPLITS, STAGES, WARPS, LaunchParameter, power_above, powers

LARGEST_TILE = 128
_MOST_SPLITS, _LEAST_SHARE = 32, 256
"""Programs that share keys, and the keys of each at the start."""
_REGISTERS = 64 * 1024
"""Number of a multiprocessor's 32-bit registers."""


class AttentionSizes(Protocol):
    """The sizes of an attention; groups, queries and keys may be free within a range."""

    groups: int
    """Number of groups with their own keys."""
    queries: int
    keys: int
    depth: int
    features: int
    dtype: str


def space(sizes: AttentionSizes, shared: bool = True) -> tuple[dict[str, LaunchParameter], Sequence[str]]:
    """Return parameters and constraints; with `shared`, several programs may see parts of the keys.

    The start has the largest tile of queries whose result stays in registers beside the scores, as the published
    kernels have it: 128 queries and 128 keys for heads of 64, 64 keys for heads of 128, 64 and 64 above.
    """
    head = max(16, power_above(max(sizes.depth, sizes.features)))
    width = 4 if sizes.dtype == "float32" else 2
    fewest, rows = (min(LARGEST_TILE, max(16, power_above(size))) for size in (smallest(sizes.queries), sizes.queries))
    start_m = min(rows, 128 if head <= 128 and width == 2 else 64 if head <= 128 else 32 if width == 4 else 64)
    start_n = 128 if head <= 64 and width == 2 else 64 if width == 2 or head <= 64 else 32
    warps = 8 if start_m * (start_n + head) >= 128 * 128 else 4
    stages = 3 if width == 2 and head <= 128 else 2
    parameters = {
        "BLOCK_M": LaunchParameter(
            start_m, tuple(size for size in (16, 32, 64, 128) if size <= rows and size * 4 >= fewest)
        ),
        "BLOCK_N": LaunchParameter(start_n, (16, 32, 64, 128)),
        WARPS: LaunchParameter(warps, (4, 8)),
        STAGES: LaunchParameter(stages, (1, 2, 3, 4)),
    }
    splits = _splits(sizes, start_m)
    if shared and splits is not None:
        parameters[SPLITS] = splits
    constraints = [
        f"(BLOCK_M + 2 * BLOCK_N * {STAGES}) * {head * width} <= {SHARED_BYTES}",
        f"BLOCK_M * (BLOCK_N + {head}) <= {_REGISTERS * 3 // 4}",
    ]
    return parameters, constraints


def _splits(sizes: AttentionSizes, tile: int) -> LaunchParameter | None:
    """Return the numbers of programs that may share keys; None if there are enough tiles, or few keys.

    The start gives each multiprocessor two programs if tiles alone give it less than one. In a range, one of its ends
    is enough to allow more than one.
    """

    def at(of: Callable[[int], int]) -> tuple[int, int]:
        return of(sizes.groups) * ceil(of(sizes.queries) / tile), min(_MOST_SPLITS, of(sizes.keys) // _LEAST_SHARE)

    if not any(tiles < 2 * MULTIPROCESSORS and most >= 2 for tiles, most in (at(smallest), at(typical))):
        return None
    if _MOST_SPLITS * largest(sizes.groups * sizes.queries) * sizes.features >= WIDE:
        return None
    (tiles, most), start = at(typical), 1
    while tiles < MULTIPROCESSORS and start * 2 <= most and start * tiles < 2 * MULTIPROCESSORS:
        start *= 2
    return LaunchParameter(start, powers(1, _MOST_SPLITS))
