"""Tiles of attention: the choices, and an analytic start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..region import SHARED_BYTES, STAGES, WARPS, LaunchParameter, power_above

LARGEST_TILE = 128
_REGISTERS = 64 * 1024
"""Of 32 bits, of a multiprocessor."""


class AttentionSizes(Protocol):
    """The sizes of an attention."""

    queries: int
    keys: int
    depth: int
    features: int
    dtype: str


def space(sizes: AttentionSizes) -> tuple[dict[str, LaunchParameter], Sequence[str]]:
    """Return parameters and constraints.

    The start has the largest tile of queries whose result stays in registers beside the scores, as the published
    kernels have it: 128 queries and 128 keys for heads of 64, 64 keys for heads of 128, 64 and 64 above.
    """
    head = max(16, power_above(max(sizes.depth, sizes.features)))
    width = 4 if sizes.dtype == "float32" else 2
    rows = min(LARGEST_TILE, max(16, power_above(sizes.queries)))
    start_m = min(rows, 128 if head <= 128 and width == 2 else 64 if head <= 128 else 32 if width == 4 else 64)
    start_n = 128 if head <= 64 and width == 2 else 64 if width == 2 or head <= 64 else 32
    warps = 8 if start_m * (start_n + head) >= 128 * 128 else 4
    stages = 3 if width == 2 and head <= 128 else 2
    parameters = {
        "BLOCK_M": LaunchParameter(
            start_m, tuple(size for size in (16, 32, 64, 128) if size <= rows and size * 4 >= rows)
        ),
        "BLOCK_N": LaunchParameter(start_n, (16, 32, 64, 128)),
        WARPS: LaunchParameter(warps, (4, 8)),
        STAGES: LaunchParameter(stages, (1, 2, 3, 4)),
    }
    constraints = [
        f"(BLOCK_M + 2 * BLOCK_N * {STAGES}) * {head * width} <= {SHARED_BYTES}",
        f"BLOCK_M * (BLOCK_N + {head}) <= {_REGISTERS * 3 // 4}",
    ]
    return parameters, constraints
