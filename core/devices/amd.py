"""AMD's GPUs. A multiprocessor is a compute unit, or on RDNA, where a block has two, a work group processor.

Figures were compared with the sources that docs/devices.md names; rates are without sparsity. An MI250X is two GPUs:
its figures are those of one (a GCD), half of the package's. `blocks` are as many as there are barriers; that a work
group of one wave needs none is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .architecture import Architecture, Card, DeviceKind

_KIB = 1024
_WAVE64: dict[str, Any] = {
    "warp_size": 64, "warps": 32, "blocks": 16, "registers": 131_072, "block_registers": 131_072,
    "thread_registers": 512, "register_unit": 8 * 64, "shared_unit": 512, "matrix": ("mfma",),
}  # fmt: skip
"""CDNA: four SIMDs with eight waves each, which share 512 registers per lane, allocated in units of eight."""
_FNUZ = ("float8_e4m3fnuz", "float8_e5m2fnuz")
_OCP = ("float8_e4m3fn", "float8_e5m2")


def _architecture(name: str, generation: str, short: str, card: Card, **limits: Any) -> Architecture:
    return Architecture(name=name, generation=generation, triton=name, suffix=name, cards={short: card}, **limits)


CDNA2 = _architecture(
    "gfx90a", "CDNA 2", "MI250X",
    Card(
        "AMD Instinct MI250X", 110, 64 << 30, 8 << 20, 1700, 1638,
        {"float16": 191.5, "bfloat16": 191.5, "float32": 47.9, "float64": 47.9, "int8": 191.5},
    ),
    shared_bytes=64 * _KIB, block_shared_bytes=64 * _KIB, fma_bytes=1024.0, **_WAVE64,
)  # fmt: skip
CDNA3 = _architecture(
    "gfx942", "CDNA 3", "MI300X",
    Card(
        "AMD Instinct MI300X", 304, 192 << 30, 32 << 20, 2100, 5300,
        {
            "float8_e4m3fnuz": 2614.9, "float16": 1307.4, "bfloat16": 1307.4, "tfloat32": 653.7, "float32": 163.4,
            "float64": 163.4, "int8": 2614.9,
        },
    ),
    shared_bytes=64 * _KIB, block_shared_bytes=64 * _KIB, fma_bytes=2048.0, float8=_FNUZ, memory_cache_bytes=256 << 20,
    **_WAVE64,
)  # fmt: skip
CDNA4 = _architecture(
    "gfx950", "CDNA 4", "MI355X",
    Card(
        "AMD Instinct MI355X", 256, 288 << 30, 32 << 20, 2400, 8000,
        {
            "float8_e4m3fn": 5033.2, "float16": 2516.6, "bfloat16": 2516.6, "float32": 157.3, "float64": 78.6,
            "int8": 5033.2,
        },
    ),
    shared_bytes=160 * _KIB, block_shared_bytes=160 * _KIB, float8=_OCP, memory_cache_bytes=256 << 20,
    **{**_WAVE64, "shared_unit": 1280},
)  # fmt: skip
RDNA4 = _architecture(
    "gfx1201", "RDNA 4", "RX-9070-XT",
    Card(
        "AMD Radeon RX 9070 XT", 32, 16 << 30, 8 << 20, 2970, 640,
        {"float8_e4m3fn": 389.0, "float16": 195.0, "bfloat16": 195.0, "float32": 48.7, "int8": 389.0},
    ),
    # Of two compute units: four SIMDs with sixteen waves each, which share 1536 registers per lane.
    warps=64, blocks=32, registers=196_608, block_registers=196_608, thread_registers=256, register_unit=24 * 32,
    shared_bytes=128 * _KIB, block_shared_bytes=64 * _KIB, shared_unit=1024, fma_bytes=2048.0, float8=_OCP,
    memory_cache_bytes=64 << 20, matrix=("wmma",),
)  # fmt: skip
_ALL = (CDNA2, CDNA3, CDNA4, RDNA4)


def _named(properties: Mapping[str, Any]) -> str | None:
    """'gfx942:sramecc+:xnack-' is gfx942."""
    name = str(properties.get("gcnArchName", "")).partition(":")[0]
    return name if name.startswith("gfx") else None


def _properties(architecture: Architecture, _: Card) -> dict[str, Any]:
    # As torch has them: 9 and 4 for gfx942, whose last digit is the stepping.
    version = architecture.name.removeprefix("gfx")
    return {
        "major": int(version[:-2]),
        "minor": int(version[-2], 16),
        "gcnArchName": architecture.name,
    }


def _like(_: str) -> Architecture | None:
    return None


AMD = DeviceKind(
    "hip", _ALL, _named, _properties, _like,
    {"waves_per_eu": (0, 1, 2, 4, 8), "kpack": (1, 2), "matrix_instr_nonkdim": (0, 16, 32)},
)  # fmt: skip
