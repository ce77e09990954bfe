"""Kinds of devices and their architectures: limits, features, GPUs. Another kind is one file.

`known_kinds` has the built-in ones, then those that installed packages declare by the entry point group
`kernelwright.devices`: objects that are a `DeviceKind`. Nothing here is imported that takes time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ...entry_points import EntryGroup
from ..errors import DeviceError
from ..text import listed
from .amd import AMD
from .architecture import Architecture as Architecture
from .architecture import Card as Card
from .architecture import DeviceKind as DeviceKind
from .nvidia import NVIDIA

BUILT_IN = (NVIDIA, AMD)
ENTRIES = EntryGroup("kernelwright.devices", "kind of device", DeviceKind, "kernelwright.core.devices.DeviceKind")


def known_kinds() -> tuple[DeviceKind, ...]:
    """Return all kinds: the built-in ones, then plug-ins."""
    return (*BUILT_IN, *map(ENTRIES.load, ENTRIES.points))


def architectures() -> dict[str, Architecture]:
    """Return all architectures that are described, by name."""
    return {item.name: item for kind in known_kinds() for item in kind.architectures}


@lru_cache(maxsize=64)
def architecture(name: str) -> Architecture:
    """Return an architecture by name.

    One that is not described may have the features of its nearest relative. Raises `DeviceError` if it has none.
    """
    described = architectures()
    if name in described:
        return described[name]
    for kind in known_kinds():
        if (found := kind.like(name)) is not None:
            return found
    raise DeviceError(f"there is no architecture {name!r}", f"use {listed(described, 'or')}")


@lru_cache(maxsize=64)
def kind_of(name: str) -> DeviceKind:
    """Return the kind of device of an architecture; raises `DeviceError` if no kind has it."""
    for kind in known_kinds():
        if any(item.name == name for item in kind.architectures) or kind.like(name) is not None:
            return kind
    raise DeviceError(f"there is no architecture {name!r}", f"use {listed(architectures(), 'or')}")


def architecture_name(properties: Mapping[str, Any]) -> str:
    """Return the name of a GPU's architecture by torch's properties; raises `DeviceError` if no kind knows them."""
    # The last kinds are asked first: every GPU has numbers that could be a compute capability.
    for kind in reversed(known_kinds()):
        if (found := kind.named(properties)) is not None:
            return found
    raise DeviceError(f"the GPU {properties.get('name', '')} is of no known kind")


def cards() -> dict[str, tuple[Architecture, Card]]:
    """Return the GPUs that are described, by short names."""
    return {short: (item, card) for item in architectures().values() for short, card in item.cards.items()}


def torch_properties(of: Architecture, card: Card) -> dict[str, Any]:
    """Return the properties that torch would have of a GPU."""
    return {
        "name": card.name,
        "multi_processor_count": card.multiprocessors,
        "total_memory": card.memory_bytes,
        "shared_memory_per_block": of.block_shared_bytes,
        "regs_per_multiprocessor": of.registers,
        "max_threads_per_multi_processor": of.threads,
        "max_threads_per_block": 1024,
        "warp_size": of.warp_size,
        "L2_cache_size": card.l2_bytes,
        "clock_rate": card.clock_mhz * 1000,
        **kind_of(of.name).properties(of, card),
    }
