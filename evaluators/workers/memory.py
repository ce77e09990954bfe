"""Device memory of a worker: what counts as large, how it is given back, and its peak.

Candidate and reference share one GPU, but not their allocators' caches: what one has cached, the other cannot use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

LARGE = 1 << 30
"""Bytes. What is larger is drawn again instead of kept, and cached memory beyond it goes back to the device; below,
the time that this takes matters more."""


def size_of(values: Iterable[Any]) -> int:
    """Return the bytes of the tensors' elements."""
    import torch

    return sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))


def is_large(values: Iterable[Any]) -> bool:
    """Return whether the tensors are too large to be kept without need."""
    return size_of(values) > LARGE


def release_cache(device: str) -> None:
    """Give the allocator's cached memory back to the device, where it is large."""
    if not device.startswith("cuda"):
        return
    import torch

    torch.cuda.ipc_collect()  # what other processes have stopped using
    if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > LARGE:
        torch.cuda.empty_cache()


def peak_bytes(device: str) -> int | None:
    """Return the most bytes that this process' allocator has held since `restart_peak`; None on a CPU."""
    if not device.startswith("cuda"):
        return None
    import torch

    return int(torch.cuda.max_memory_reserved())


def restart_peak(device: str) -> None:
    """Forget the peak so far."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.reset_peak_memory_stats()
