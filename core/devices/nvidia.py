"""NVIDIA's GPUs.

Limits and rates were compared with the sources that docs/devices.md names, which also lists what was not checked;
rates are without sparsity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .architecture import Architecture, Card, DeviceKind

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_RESERVED = 1024
"""From compute capability 8.0 on."""
_KIB = 1024


def _card(
    name: str, count: int, gigabytes: float, l2_mb: int, mhz: int, gb_s: float, rates: Mapping[str, float]
) -> Card:
    narrow = {"bfloat16": rates["float16"]} if "float16" in rates and "tfloat32" in rates else {}
    return Card(name, count, int(gigabytes * 1e9), l2_mb << 20, mhz, gb_s, {**narrow, **rates})


def _architecture(
    capability: int, generation: str, warps: int, blocks: int, kib: int, cards: Mapping[str, Card], **features: Any
) -> Architecture:
    """Return a compute capability, times ten; `kib` of shared memory has a multiprocessor."""
    reserved = _RESERVED if capability >= 80 else 0
    return Architecture(
        name=f"sm_{capability}",
        generation=generation,
        triton=capability,
        suffix=str(capability),
        warps=warps,
        blocks=blocks,
        shared_bytes=kib * _KIB,
        block_shared_bytes=kib * _KIB - reserved,
        shared_reserved=reserved,
        cards=cards,
        special_functions=16,
        matrix=features.pop("matrix", ("mma",)),
        **features,
    )


_A100 = {"float16": 312.0, "tfloat32": 156.0, "float32": 19.5, "int8": 624.0}
_H100 = {"float8_e4m3fn": 1978.9, "float16": 989.4, "tfloat32": 494.7, "float32": 66.9, "int8": 1978.9}
_FROM_HOPPER: dict[str, Any] = {"float8": _FLOAT8, "descriptors": True}
_FROM_BLACKWELL = {**_FROM_HOPPER, "block_scaled": ("mxfp8", "nvfp4")}

TURING = _architecture(
    75, "Turing", 32, 16, 64, {"T4": _card("Tesla T4", 40, 15.6, 4, 1590, 320, {"float16": 65.0, "float32": 8.1})},
    shared_unit=256,
)  # fmt: skip
AMPERE = _architecture(
    80, "Ampere", 64, 32, 164,
    {
        "A100": _card("NVIDIA A100-SXM4-40GB", 108, 42.4, 40, 1410, 1555, _A100),
        "A100-80GB": _card("NVIDIA A100-SXM4-80GB", 108, 85.1, 40, 1410, 2039, _A100),
    },
)  # fmt: skip
GA10X = _architecture(
    86, "Ampere", 48, 16, 100,
    {"A10": _card("NVIDIA A10", 72, 23.8, 6, 1695, 600, {"float16": 125.0, "tfloat32": 62.5, "float32": 31.2})},
)  # fmt: skip
ORIN = _architecture(87, "Ampere", 48, 16, 164, {})
ADA = _architecture(
    89, "Ada", 48, 24, 100,
    {
        "L4": _card(
            "NVIDIA L4", 58, 23.7, 48, 2040, 300,
            {"float8_e4m3fn": 242.5, "float16": 121.0, "tfloat32": 60.0, "float32": 30.3},
        ),
        "L40S": _card(
            "NVIDIA L40S", 142, 47.7, 96, 2520, 864,
            {"float8_e4m3fn": 733.0, "float16": 362.0, "tfloat32": 183.0, "float32": 91.6},
        ),
    },
    float8=_FLOAT8,
)  # fmt: skip
HOPPER = _architecture(
    90, "Hopper", 64, 32, 228,
    {
        "H100": _card("NVIDIA H100 80GB HBM3", 132, 85.0, 50, 1980, 3350, _H100),
        "H200": _card("NVIDIA H200", 132, 150.1, 60, 1980, 4800, _H100),
    },
    matrix=("wgmma", "mma"), asynchronous=True, warp_groups=True, **_FROM_HOPPER,
)  # fmt: skip
BLACKWELL = _architecture(
    100, "Blackwell", 64, 32, 228,
    {
        "B200": _card(
            "NVIDIA B200", 148, 191.5, 126, 1965, 7700,
            {"float8_e4m3fn": 4500.0, "float16": 2250.0, "tfloat32": 1125.0, "float32": 75.0},
        ),
    },
    matrix=("tcgen05", "mma"), asynchronous=True, **_FROM_BLACKWELL,
)  # fmt: skip
RTX_BLACKWELL = _architecture(
    120, "Blackwell", 48, 24, 100,
    {
        "RTX-PRO-6000": _card(
            "NVIDIA RTX PRO 6000 Blackwell Server Edition", 188, 101.9, 128, 2617, 1597, {"float32": 120.0}
        ),
    },
    **_FROM_BLACKWELL,
)  # fmt: skip
_ALL = (TURING, AMPERE, GA10X, ORIN, ADA, HOPPER, BLACKWELL, RTX_BLACKWELL)


def _named(properties: Mapping[str, Any]) -> str | None:
    """torch gives `gcnArchName` in builds for CUDA too: the GPU's name."""
    if str(properties.get("gcnArchName", "")).startswith("gfx"):
        return None
    return f"sm_{10 * properties['major'] + properties['minor']}"


def _properties(architecture: Architecture, _: Card) -> dict[str, Any]:
    capability = int(architecture.triton)
    return {
        "major": capability // 10,
        "minor": capability % 10,
        "shared_memory_per_block": 48 << 10,
        "shared_memory_per_block_optin": architecture.block_shared_bytes,
        "shared_memory_per_multiprocessor": architecture.shared_bytes,
    }


def _like(name: str) -> Architecture | None:
    """Return the nearest older one, by another name: features stay, limits are the driver's to say, rates unknown."""
    prefix, _, number = name.partition("_")
    if prefix != "sm" or not number.isdigit():
        return None
    older = [item for item in _ALL if int(item.triton) <= int(number)]
    nearest = older[-1] if older else TURING
    return replace(nearest, name=name, triton=int(number), suffix=number, special_functions=None)


NVIDIA = DeviceKind("cuda", _ALL, _named, _properties, _like)
