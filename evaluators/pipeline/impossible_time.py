"""Times in which the bytes cannot have moved."""

from __future__ import annotations

from ...core import Ceilings, Rejection

IMPOSSIBLE_SHARE = 0.5
"""A time below this share of the time to move the bytes is impossible on the device."""
CPU_CACHE_BYTES = 512e6
"""More bytes than the caches of any processor hold."""


def impossible(latency_ms: float, bytes_moved: float, ceilings: Ceilings) -> Rejection | None:
    """Check the rule 'impossible-time': bytes that no cache holds must move, at the best rate at most."""
    floor_ms = bytes_moved / ceilings.copy_gb_s / 1e6
    if latency_ms >= IMPOSSIBLE_SHARE * floor_ms:
        return None
    return Rejection(
        rule="impossible-time",
        where=f"{latency_ms:.4f} ms a call",
        why=f"reading the inputs and writing the outputs once takes {floor_ms:.4f} ms at the best rate that was "
        "measured on this device; work is left out, or the clock is deceived",
    )
