"""The number of blocks of a kernel that fit on a multiprocessor at once, and the resource that limits it.

The limits are those of `core.devices`; the arithmetic is that of cuda_occupancy.h, as in CUDA's occupancy calculator.
It gives the waves that LLVM states for AMD's GPUs, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.devices import Architecture, architectures


@dataclass(frozen=True)
class Occupancy:
    """The part of a kernel that runs on one multiprocessor at once."""

    blocks: int
    """Blocks; 0 when not even one fits."""
    share: float
    """Warps per multiprocessor over the maximum."""
    limited_by: str
    """'threads', 'registers', 'shared memory' or 'blocks': the resource to reduce for a higher occupancy."""


def occupancy(architecture: str, threads: int, registers: int, shared_bytes: int) -> Occupancy | None:
    """Return the occupancy of blocks of `threads` threads, each with `registers` 32-bit registers.

    `shared_bytes` is the block's static and dynamic shared memory, without what the system reserves. Assumes the
    largest share of the L1 cache as shared memory, which the driver grants when a kernel needs it. None for an
    architecture that is not described ('sm_90' is Hopper).
    """
    limits = architectures().get(architecture)
    if limits is None:
        return None
    warps = -(-threads // limits.warp_size)
    shared = _round_up(shared_bytes + limits.shared_reserved, limits.shared_unit)
    fitting = {
        "threads": limits.warps // warps,
        "registers": _by_registers(limits, warps, registers),
        "shared memory": limits.shared_bytes // shared if shared else limits.blocks,
        "blocks": limits.blocks,
    }
    limited_by = min(fitting, key=lambda name: fitting[name])  # of equals the first: threads, when they are full
    blocks = fitting[limited_by]
    return Occupancy(blocks, blocks * warps / limits.warps, limited_by)


def _by_registers(limits: Architecture, warps: int, registers: int) -> int:
    per_warp = _round_up(max(registers, 1) * limits.warp_size, limits.register_unit)
    # A launch is checked as if every part had registers for the same number of warps.
    if per_warp * _round_up(warps, limits.partitions) > limits.block_registers:
        return 0
    return limits.registers // limits.partitions // per_warp * limits.partitions // warps


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
