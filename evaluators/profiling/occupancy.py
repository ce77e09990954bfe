"""How many blocks of a kernel a multiprocessor keeps at once, and what keeps it from more.

The limits are those of the CUDA C++ Programming Guide, 'Technical Specifications per Compute Capability'; the
arithmetic is that of cuda_occupancy.h, which CUDA's occupancy calculator shares.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
_REGISTERS = 65_536
"""Of a multiprocessor, and the most that one block may take: alike on every GPU listed below."""
_REGISTER_UNIT = 256
"""Registers are given to a warp in multiples of so many."""
_PARTITIONS = 4
"""A multiprocessor's registers lie in four parts, and a warp takes all of its own from one."""
_SHARED_UNIT = 128
_SHARED_RESERVED = 1024
"""Bytes of every block's shared memory that the system keeps for itself, from compute capability 8.0 on."""


@dataclass(frozen=True)
class _Multiprocessor:
    warps: int
    blocks: int
    shared_bytes: int


_MULTIPROCESSORS = {
    80: _Multiprocessor(64, 32, 164 * 1024),
    86: _Multiprocessor(48, 16, 100 * 1024),
    87: _Multiprocessor(48, 16, 164 * 1024),
    89: _Multiprocessor(48, 24, 100 * 1024),
    90: _Multiprocessor(64, 32, 228 * 1024),
    100: _Multiprocessor(64, 32, 228 * 1024),
}
"""By compute capability times ten."""


@dataclass(frozen=True)
class Occupancy:
    """What one multiprocessor keeps at once of a kernel."""

    blocks: int
    """0 when not even one block fits."""
    share: float
    """Its warps over the most that a multiprocessor can keep."""
    limited_by: str
    """'threads', 'registers', 'shared memory' or 'blocks': what would have to shrink for more to fit."""


def occupancy(capability: int, threads: int, registers: int, shared_bytes: int) -> Occupancy | None:
    """The occupancy of blocks of so many threads, each with so many 32-bit registers.

    `shared_bytes` is what the block asks for, static and dynamic, without what the system reserves. It assumes the
    largest share of the L1 cache as shared memory, which the driver gives when a kernel needs it. None for a
    capability (90 is Hopper) that is not known here.
    """
    limits = _MULTIPROCESSORS.get(capability)
    if limits is None:
        return None
    warps = -(-threads // WARP)
    shared = _round_up(shared_bytes + _SHARED_RESERVED, _SHARED_UNIT)
    fitting = {
        "threads": limits.warps // warps,
        "registers": _by_registers(warps, registers),
        "shared memory": limits.shared_bytes // shared,
        "blocks": limits.blocks,
    }
    limited_by = min(fitting, key=lambda name: fitting[name])  # of equals the first: a full house is no want
    blocks = fitting[limited_by]
    return Occupancy(blocks, blocks * warps / limits.warps, limited_by)


def _by_registers(warps: int, registers: int) -> int:
    per_warp = _round_up(max(registers, 1) * WARP, _REGISTER_UNIT)
    # A launch is refused as if every part gave registers to the same number of warps.
    if per_warp * _round_up(warps, _PARTITIONS) > _REGISTERS:
        return 0
    return _REGISTERS // _PARTITIONS // per_warp * _PARTITIONS // warps


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
