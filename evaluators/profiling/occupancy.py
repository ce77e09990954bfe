"""The number of blocks of a kernel that fit on a multiprocessor at once, and the resource that limits it.

The limits are from the CUDA C++ Programming Guide, 'Technical Specifications per Compute Capability'; the arithmetic
is that of cuda_occupancy.h, as in CUDA's occupancy calculator.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
_REGISTERS = 65_536
"""Registers of a multiprocessor, and the most that one block may take: the same on every GPU listed below."""
_REGISTER_UNIT = 256
"""Registers are allocated to a warp in multiples of this."""
_PARTITIONS = 4
"""A multiprocessor's registers are split into this many parts, and a warp's are all in one."""
_SHARED_UNIT = 128
_SHARED_RESERVED = 1024
"""Bytes of every block's shared memory that the system reserves, from compute capability 8.0 on."""


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
    """The part of a kernel that runs on one multiprocessor at once."""

    blocks: int
    """Blocks; 0 when not even one fits."""
    share: float
    """Warps per multiprocessor over the maximum."""
    limited_by: str
    """'threads', 'registers', 'shared memory' or 'blocks': the resource to reduce for a higher occupancy."""


def occupancy(capability: int, threads: int, registers: int, shared_bytes: int) -> Occupancy | None:
    """Return the occupancy of blocks of `threads` threads, each with `registers` 32-bit registers.

    `shared_bytes` is the block's static and dynamic shared memory, without what the system reserves. Assumes the
    largest share of the L1 cache as shared memory, which the driver grants when a kernel needs it. None for an unknown
    capability (90 is Hopper).
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
    limited_by = min(fitting, key=lambda name: fitting[name])  # of equals the first: threads, when they are full
    blocks = fitting[limited_by]
    return Occupancy(blocks, blocks * warps / limits.warps, limited_by)


def _by_registers(warps: int, registers: int) -> int:
    per_warp = _round_up(max(registers, 1) * WARP, _REGISTER_UNIT)
    # A launch is checked as if every part had registers for the same number of warps.
    if per_warp * _round_up(warps, _PARTITIONS) > _REGISTERS:
        return 0
    return _REGISTERS // _PARTITIONS // per_warp * _PARTITIONS // warps


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
