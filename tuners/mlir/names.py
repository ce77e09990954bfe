"""File names as the seed's dispatch profiler has them: a folder per operation, a file per config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...core import Value
from ...core.mlir_operation import Operation
from .cuda_levels import intrinsic_of
from .roles import LoopRoles
from .space import Schedule

_ROW_MAJOR, _COLUMN_MAJOR = "t", "n"


def operation_name(operation: Operation) -> str:
    """Return `matmul_1024x512x256_f32t_f32t_f32t`: sizes M x N x K, and t or n for operands by rows or by columns."""
    kind = _family(operation)
    lhs, rhs = operation.operands
    a = _COLUMN_MAJOR if "transpose_a" in operation.kind else _ROW_MAJOR
    b = _COLUMN_MAJOR if "transpose_b" in operation.kind else _ROW_MAJOR
    return f"{kind}_{operation.shape}_{lhs.element}{a}_{rhs.element}{b}_{operation.result.element}{_ROW_MAJOR}"


def config_name(schedule: Schedule, config: Mapping[str, Value]) -> str:
    """Return `tilesize_64x64x128_interchange_0x1x2_vectorsize_4x4_2_64x2x1_simt` for a config of one operation.

    On a CPU the vectors have three sizes, and there are no stages and blocks:
    `tilesize_64x64x256_interchange_0x1x2_vectorsize_8x32x1_llvm_cpu`.
    """
    plain = schedule.plain(config)
    order = "x".join(str(i) for i in range(len(schedule.operation.loops)))
    tile = _joined(plain, "tile_m", "tile_n", "tile_k")
    rest = f"_height_{plain['tile_h']}" if "tile_h" in plain else ""
    if "vector_m" in plain:
        vector = _joined(plain, "vector_m", "vector_n", "vector_k")
        return f"tilesize_{tile}_interchange_{order}_vectorsize_{vector}{rest}_llvm_cpu"
    block = _joined(plain, "block_dim_x", "block_dim_y", "block_dim_z")
    intrinsic = intrinsic_of(LoopRoles.of(schedule.operation))
    if intrinsic is not None:
        vector, way = f"{intrinsic.m}x{intrinsic.n}", "tensorcore_mmasync"
    else:
        threads = plain["block_dim_x"] * plain["block_dim_y"] * plain["block_dim_z"]
        rows = plain["tile_m"] * plain["tile_n"] // (threads * plain["thread_n"])
        vector, way = f"{rows}x{plain['thread_n']}", "simt" if plain["shared"] else "simt_direct"
    way += "" if plain["padded"] else "_unpadded"
    stages = plain["pipeline_depth"]
    return f"tilesize_{tile}_interchange_{order}_vectorsize_{vector}_{stages}_{block}_{way}"


def path_of(root: Path, schedule: Schedule, config: Mapping[str, Value]) -> Path:
    """Return the file of a config's module: `ROOT/linalg/matmul/matmul_1024x512x256_f32t_f32t_f32t/tilesize_...`."""
    folder = root / "linalg" / _family(schedule.operation) / operation_name(schedule.operation)
    return folder / f"{config_name(schedule, config)}.mlir"


def _family(operation: Operation) -> str:
    """Return the kind, however its operands lie."""
    return operation.kind.split("_transpose")[0]


def _joined(values: Mapping[str, int], *names: str) -> str:
    return "x".join(str(values[name]) for name in names)
