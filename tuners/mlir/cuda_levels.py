"""Schedules for CUDA: a tile per block, steps over the depth, and a tile per thread, or per warp on tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...core.devices.nvidia import AMPERE
from .levels import Levels, at, divisors, mark
from .machine import ScheduleTarget
from .roles import LoopRoles

_THREADS = "(block_dim_x * block_dim_y * block_dim_z)"
_WARP = AMPERE.warp_size
_UNPADDED = "'true' if padded == 0 else 'false'"
_PIPELINE = (2,)
"""IREE 3.13 generates the same code for every depth."""
_SUM_BYTES = 512
"""Accumulator bytes per thread on tensor cores: half of its registers."""
_SHARED_BYTES = AMPERE.block_shared_bytes
"""Shared memory per block on sm_80, as in IREE's target description."""


@dataclass(frozen=True)
class Intrinsic:
    """A matrix instruction of a warp: its tile, and its name in IREE."""

    name: str
    m: int
    n: int
    k: int


_INTRINSICS: Mapping[tuple[str, str], Intrinsic] = {
    ("f16", "f16"): Intrinsic("NV_MMA_SYNC_F16_16x8x16_F16", 16, 8, 16),
    ("f16", "f32"): Intrinsic("NV_MMA_SYNC_F32_16x8x16_F16", 16, 8, 16),
    ("bf16", "f32"): Intrinsic("NV_MMA_SYNC_F32_16x8x16_BF16", 16, 8, 16),
}
"""By the elements of the operands and of the result; sm_80 and later have them."""


def intrinsic_of(roles: LoopRoles) -> Intrinsic | None:
    """Return the matrix instruction for a product; None if there is none for its types or sizes."""
    lhs, rhs = roles.operation.operands
    found = _INTRINSICS.get((lhs.element, roles.operation.result.element)) if lhs.element == rhs.element else None
    if found is None or roles.convolution or roles.rows is None:
        return None
    fits = roles.rows.size % found.m == 0 and roles.columns.size % found.n == 0 and roles.depth.size % found.k == 0
    return found if fits else None


def levels(roles: LoopRoles, _: ScheduleTarget) -> Levels:
    """Return the levels of an operation on a GPU, on tensor cores if they have an instruction for it."""
    intrinsic = intrinsic_of(roles)
    return _by_warps(roles, intrinsic) if intrinsic else _by_threads(roles)


def _by_threads(roles: LoopRoles) -> Levels:
    columns, rows, depth = roles.columns.size, roles.row_steps, roles.depth.size
    values: dict[str, tuple[int, ...]] = {
        "tile_m": _tiles(rows, 16, 128),
        "tile_n": _tiles(columns, 32, 256),
        "tile_k": divisors(depth, 4, 64),
        "block_dim_x": (_WARP,),
        "block_dim_y": (1, 2, 4, 8, 16),
        "block_dim_z": (1,),
        "thread_n": (1, 2, 4, 8, 16),
        "shared": (0, 1),
        "padded": (0, 1),
        "pipeline_depth": _PIPELINE,
    }
    constraints = (
        f"{_THREADS} <= 1024",
        f"{_THREADS} % {_WARP} == 0",
        "tile_n % thread_n == 0",
        f"(tile_m * tile_n) % ({_THREADS} * thread_n) == 0",
        f"tile_m % ({_thread_rows()}) == 0",
        "shared == 1 or padded == 0",
        f"shared == 0 or {_shared(roles)} <= {_SHARED_BYTES}",
    )
    forms = [(64, 64, 16, 8, 4, 1, 1), (64, 128, 16, 8, 8, 1, 1), (128, 128, 16, 8, 8, 1, 1), (128, 128, 8, 8, 8, 1, 0),
             (64, 64, 32, 8, 4, 1, 0), (32, 128, 32, 8, 4, 1, 1), (128, 64, 16, 8, 4, 1, 0), (64, 64, 16, 4, 8, 1, 1),
             (32, 64, 32, 4, 4, 1, 1), (64, 128, 8, 8, 4, 0, 0)]  # fmt: skip
    names = ("tile_m", "tile_n", "tile_k", "block_dim_y", "thread_n", "shared", "padded")
    likely = tuple({**dict(zip(names, form, strict=True)), "block_dim_x": _WARP} for form in forms)
    preferences = (f"tile_m * tile_n <= 128 * {_THREADS}", f"tile_m * tile_n >= 4 * {_THREADS}")
    return Levels(values, constraints, preferences, likely, _threads_info(roles), _extents(roles))


def _tiles(size: int, least: int, most: int) -> tuple[int, ...]:
    """Return sizes of tiles that threads can share out: multiples of 8 that divide the loop, or powers of two."""
    dividing = [tile for tile in divisors(size, least, most) if tile % 8 == 0 and tile <= most]
    powers = [1 << bit for bit in range(most.bit_length()) if 1 << bit <= min(size, most)]
    large = [power for power in powers if power >= least] or powers[-2:]
    return tuple(dividing if len(dividing) > 1 else sorted({*dividing, *large}))


def _thread_rows() -> str:
    """Return the rows of a thread's tile: all threads together have just the block's tile."""
    return f"tile_m * tile_n // ({_THREADS} * thread_n)"


def _threads_info(roles: LoopRoles) -> str:
    rows, columns = roles.rows.name if roles.rows else "", roles.columns.name
    ones = dict.fromkeys(roles.parallel(), 1)
    tile = {**ones, rows: mark(_thread_rows()), columns: mark("thread_n")}
    # An empty list promotes nothing.
    promoted = mark("'[0, 1]' if shared == 1 else '[]'")
    parts = [*_block(roles, mark("tile_k")), f"thread = {at(roles.loops, tile)}", f"promote_operands = {promoted}"]
    return _info(parts)


def _by_warps(roles: LoopRoles, intrinsic: Intrinsic) -> Levels:
    columns, rows, depth = roles.columns.size, roles.row_steps, roles.depth.size
    values = {
        "tile_m": tuple(v for v in divisors(rows, 32, 256) if v % intrinsic.m == 0) or (intrinsic.m,),
        "tile_n": tuple(v for v in divisors(columns, 32, 256) if v % intrinsic.n == 0) or (intrinsic.n,),
        "tile_k": tuple(v for v in divisors(depth, 32, 128) if v % intrinsic.k == 0) or (intrinsic.k,),
        "block_dim_x": (_WARP, 2 * _WARP, 4 * _WARP),
        "block_dim_y": (1, 2, 4),
        "block_dim_z": (1,),
        "padded": (0, 1),
        "pipeline_depth": _PIPELINE,
    }
    constraints = (
        f"{_THREADS} <= 1024",
        f"block_dim_x % {_WARP} == 0",
        f"tile_m % ({intrinsic.m} * block_dim_y) == 0",
        f"tile_n % ({intrinsic.n} * (block_dim_x // {_WARP})) == 0",
        f"tile_k % {intrinsic.k} == 0",
        f"{_shared(roles)} <= {_SHARED_BYTES}",
    )
    forms = [(128, 128, 32, 2, 2, 1), (128, 128, 64, 2, 2, 1), (256, 128, 32, 2, 2, 1), (64, 128, 64, 2, 2, 1),
             (128, 256, 32, 4, 2, 1), (256, 256, 32, 4, 2, 1), (256, 128, 32, 2, 4, 1), (64, 64, 64, 2, 2, 1),
             (128, 64, 64, 2, 2, 1), (32, 64, 64, 2, 1, 1)]  # fmt: skip
    names = ("tile_m", "tile_n", "tile_k", "block_dim_x", "block_dim_y", "padded")
    likely = tuple(dict(zip(names, (*form[:3], form[3] * _WARP, *form[4:]), strict=True)) for form in forms)
    most = _SUM_BYTES // roles.result_bytes
    preferences = (
        f"tile_m * tile_n <= {most} * {_THREADS}",
        f"tile_m * tile_n >= 8 * {_THREADS}",
        "padded == 1",  # otherwise the rows of a fragment are in the same banks: four to eight times the reads
    )
    return Levels(values, constraints, preferences, likely, _warps_info(roles, intrinsic), _extents(roles))


def _warps_info(roles: LoopRoles, intrinsic: Intrinsic) -> str:
    """Tiles of warps and steps over the depth count instructions, not elements."""
    rows, columns = roles.rows.name if roles.rows else "", roles.columns.name
    tile = {
        rows: mark(f"tile_m // ({intrinsic.m} * block_dim_y)"),
        columns: mark(f"tile_n // ({intrinsic.n} * (block_dim_x // {_WARP}))"),
    }
    parts = [
        *_block(roles, mark(f"tile_k // {intrinsic.k}")),
        f"subgroup = {at(roles.loops, tile)}",
        f"mma_kind = #iree_gpu.mma_layout<{intrinsic.name}>",
        "promote_operands = [0, 1]",
    ]
    return _info(parts)


def _block(roles: LoopRoles, step: str) -> list[str]:
    """Return the levels of the block: its tile, and its step over the depth, other summed loops one by one."""
    rows = roles.rows.name if roles.rows else ""
    tile = {**dict.fromkeys(roles.parallel(), 1), rows: mark("tile_m"), roles.columns.name: mark("tile_n")}
    steps = {**dict.fromkeys(roles.summed(), 1), roles.depth.name: step}
    return [f"workgroup = {at(roles.loops, tile)}", f"reduction = {at(roles.loops, steps)}"]


def _shared(roles: LoopRoles) -> str:
    """Return the bytes of the operands' tiles in shared memory; prefetched data waits in registers."""
    bytes_ = max(operand.element_bytes for operand in roles.operation.operands)
    return f"(tile_m + tile_n) * tile_k * {bytes_}"


def _extents(roles: LoopRoles) -> dict[str, int]:
    columns, rows, depth = roles.columns.size, roles.row_steps, roles.depth.size
    return {"tile_m": rows, "tile_n": columns, "tile_k": depth, "thread_n": columns}


def _info(parts: list[str]) -> str:
    options = (
        f"#iree_gpu.pipeline_options<prefetch_num_stages = {mark('pipeline_depth')}, "
        f"no_reduce_shared_memory_bank_conflicts = {mark(_UNPADDED)}>"
    )
    return (
        f"#iree_codegen.compilation_info<lowering_config = #iree_gpu.lowering_config<{{{', '.join(parts)}}}>, "
        "translation_info = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<TileAndFuse> "
        f"workgroup_size = [{', '.join(mark(f'block_dim_{axis}') for axis in 'xyz')}] subgroup_size = {_WARP}, "
        f"{{gpu_pipeline_options = {options}}}>>"
    )
