"""Schedules for llvm-cpu: tiles that are shared out to the workers, tiles for the cache, tiles in vector registers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .levels import Levels, at, divisors, mark
from .machine import ScheduleTarget
from .roles import LoopRoles

_STACK = 16384
"""Bytes of an accumulator tile that IREE still keeps on the stack when the depth is cut: it refuses twice that."""
_CACHE = 64
"""Rows and columns of such a tile at most."""
_WIDE = 4
"""Bytes of the results in which processors add."""
_UNROLLED = 16
"""Steps of the depth at most that are unrolled in registers."""


def levels(roles: LoopRoles, machine: ScheduleTarget) -> Levels:
    """Return the levels of an operation on a CPU; a convolution has none for the cache."""
    lanes = max(1, machine.vector_bytes // roles.result_bytes)
    columns, rows, depth = roles.columns.size, roles.row_steps, roles.depth.size
    parts = divisors if roles.convolution else _parts
    values = {
        "tile_m": parts(rows, 16, 512),
        "tile_n": parts(columns, lanes, 2048 if rows == 1 else 512),
        "tile_k": (depth,) if roles.convolution or rows == 1 else divisors(depth, max(64, depth // 8)),
        "vector_m": parts(rows, 1, 16),
        "vector_n": _vectors(parts(columns, 1, _registers(roles) * lanes), lanes),
        "vector_k": divisors(depth, 1, _UNROLLED),
    }
    if roles.height is not None:
        values["tile_h"] = divisors(roles.height.size, 1, 8)
    constraints = ["tile_m % vector_m == 0", "tile_n % vector_n == 0", "tile_k % vector_k == 0"]
    if len(values["tile_k"]) > 1:
        tile = f"min(tile_m, {_CACHE}) * min(tile_n, {_CACHE}) * {roles.result_bytes}"
        constraints.append(f"tile_k == {depth} or {tile} <= {_STACK}")
    registers = machine.vector_registers // (1 if rows == 1 else 2)
    preferences = [
        f"vector_m * vector_n <= {registers * lanes}",
        f"vector_m * vector_n >= {min(lanes if roles.transposed else 2 * lanes, max(1, rows * columns // 4))}",
    ]
    results = math.prod(loop.size for loop in roles.loops if not loop.reduction)
    if values["tile_m"][0] * values["tile_n"][0] * machine.workers <= results:
        preferences.append(f"tile_m * tile_n * {machine.workers} <= {results}")
    # A sum in fewer than 32 bits is widened and rounded around each unrolled part of the depth.
    unrolled = 1 if roles.result_bytes >= _WIDE else values["vector_k"][-1]
    extents = {"tile_m": rows, "vector_m": rows, "tile_n": columns, "vector_n": columns, "tile_k": depth,
               "vector_k": depth, "tile_h": roles.height.size if roles.height else 1}  # fmt: skip
    likely = _likely_transposed(rows, depth, lanes) if roles.transposed else _likely(rows, depth, lanes, unrolled)
    return Levels(values, tuple(constraints), tuple(preferences), likely, _info(roles), extents)


def _registers(roles: LoopRoles) -> int:
    """Return the registers of a vector over columns at most: few where each is gathered from several rows."""
    return 2 if roles.transposed else 16 if roles.row_steps == 1 else 4


def _parts(size: int, least: int, most: int) -> tuple[int, ...]:
    """Return divisors; for a size that 16 does not divide powers of two besides: IREE computes the rest apart."""
    dividing = divisors(size, least, most)
    powers = [1 << bit for bit in range(most.bit_length()) if least <= 1 << bit <= min(size, most)]
    return tuple(sorted({*dividing, *powers})) if size % 16 else dividing


def _vectors(widths: Sequence[int], lanes: int) -> tuple[int, ...]:
    """Return the widths of vectors: whole registers where the columns allow it."""
    return tuple(width for width in widths if width % lanes == 0) or tuple(widths)


def _likely(rows: int, depth: int, lanes: int, unrolled: int) -> tuple[dict[str, int], ...]:
    """Return the values that were fastest on an AMD EPYC with AVX-512 (docs/mlir.md), for vectors of `lanes` elements.

    `unrolled` are the steps of the depth in registers where there is more than one row.
    """
    if rows == 1:
        wide = [(256, 16, 4), (512, 16, 1), (64, 4, 4), (256, 16, 1), (128, 8, 4), (256, 8, 4), (2048, 16, 4),
                (1024, 16, 4)]  # fmt: skip
        return tuple(
            {"tile_m": 1, "tile_n": tile, "tile_k": depth, "vector_m": 1, "vector_n": vectors * lanes, "vector_k": k}
            for tile, vectors, k in wide
        )
    forms = [(64, 64, 8, 2), (32, 128, 8, 2), (64, 128, 8, 2), (64, 64, 4, 4), (64, 64, 16, 1), (128, 128, 8, 2),
             (512, 32, 8, 2), (64, 128, 4, 4), (128, 64, 8, 2), (256, 512, 8, 2)]  # fmt: skip
    tiles = {"tile_k": depth, "vector_k": unrolled, "tile_h": 4}
    return tuple({"tile_m": m, "tile_n": n, "vector_m": vm, "vector_n": v * lanes, **tiles} for m, n, vm, v in forms)


def _likely_transposed(rows: int, depth: int, lanes: int) -> tuple[dict[str, int], ...]:
    """Return the fastest values if an operand must be transposed in registers: one register of columns."""
    if rows == 1:
        forms = [(1, 64, 1, 16), (1, 32, 1, 16), (1, 128, 1, 16), (1, 256, 1, 16), (1, 64, 1, 8)]
    else:
        forms = [(64, 64, 8, 16), (64, 64, 16, 1), (64, 128, 8, 16), (64, 64, 16, 4), (128, 64, 8, 16),
                 (64, 256, 8, 16), (64, 64, 16, 16), (32, 64, 8, 16)]  # fmt: skip
    tiles = {"tile_k": depth, "vector_n": lanes, "tile_h": 4}
    return tuple({"tile_m": m, "tile_n": n, "vector_m": vm, "vector_k": vk, **tiles} for m, n, vm, vk in forms)


def _info(roles: LoopRoles) -> str:
    loops, columns, depth = roles.loops, roles.columns.name, roles.depth.name
    rows = roles.rows.name if roles.rows else ""
    parallel, summed = dict.fromkeys(roles.parallel(), 1), dict.fromkeys(roles.summed(), 1)
    height = {roles.height.name: mark("tile_h")} if roles.height else {}
    tiles = {**parallel, **height, rows: mark("tile_m"), columns: mark("tile_n")}
    vectors = {**parallel, rows: mark("vector_m"), columns: mark("vector_n")}
    parts = [f"distribution = {at(loops, tiles)}"]
    if not roles.convolution:
        cut = f"if tile_k < {roles.depth.size} else 0"
        near = {rows: mark(f"min(tile_m, {_CACHE}) {cut}"), columns: mark(f"min(tile_n, {_CACHE}) {cut}")}
        parts += [
            f"cache_parallel = {at(loops, near)}",
            f"cache_reduction = {at(loops, {depth: mark(f'tile_k {cut}')})}",
        ]
    parts += [
        f"vector_common_parallel = {at(loops, vectors)}",
        f"vector_reduction = {at(loops, {**summed, depth: mark('vector_k')})}",
    ]
    pipeline = "ConvTileAndDecomposeExpert" if roles.convolution else "DoubleTilingExpert"
    return (
        f"#iree_codegen.compilation_info<lowering_config = #iree_cpu.lowering_config<{', '.join(parts)}>, "
        f"translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<{pipeline}>>>"
    )
