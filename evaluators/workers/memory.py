"""Device memory of workers: what counts as large, how it is given back, and the peak of all together.

Candidate and reference share one GPU, but not their allocators' caches: what one has cached, the other cannot use.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from .channel import Message

LARGE = 1 << 30
"""Bytes. What is larger is drawn again instead of kept, and cached memory beyond it goes back to the device; below,
the time that this takes matters more."""

MOST = 1 << 50
"""Bytes. What a process says to have beyond that is not memory."""
FIELD = "device_memory"
"""Key in every response of a worker that uses a GPU."""
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Options of glibc's mallopt, from malloc.h."""


def size_of(values: Iterable[Any]) -> int:
    """Return the bytes of the tensors' elements."""
    import torch

    return sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))


def is_large(values: Iterable[Any]) -> bool:
    """Return whether the tensors are too large to be kept without need."""
    return size_of(values) > LARGE


def fitting(values: Sequence[Any]) -> int:
    """Return how many of such values are not large together; at least one."""
    return max(1, LARGE // max(1, size_of(values)))


def has_room(device: str, needed: int, cached: bool = False) -> bool:
    """Return whether this many bytes of a GPU are free, or `cached` by this process; never on a CPU."""
    if not device.startswith("cuda"):
        return False
    import torch

    free, _ = torch.cuda.mem_get_info()
    own = torch.cuda.memory_reserved() - torch.cuda.memory_allocated() if cached else 0
    return bool(free + own >= needed)


def release_cache(device: str) -> None:
    """Give the allocator's cached memory back to the device, where it is large."""
    if not device.startswith("cuda"):
        return
    import torch

    torch.cuda.ipc_collect()  # what other processes have stopped using
    if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > LARGE:
        torch.cuda.empty_cache()


class RequestMemory:
    """In a worker: the device memory that its allocator holds while it serves a request, and afterwards."""

    def __init__(self, device: str) -> None:
        self._on_gpu = device.startswith("cuda")

    def restart(self) -> None:
        """Begin with a request."""
        if self._on_gpu:
            import torch

            torch.cuda.reset_peak_memory_stats()

    def described(self) -> Message:
        """Return the response's field: the most bytes since `restart`, and those that are held now; none on a CPU."""
        if not self._on_gpu:
            return {}
        import torch

        # Not by name: that sorts a hundred figures for each, which takes longer than many a request.
        held = torch.cuda.memory_stats_as_nested_dict().get("reserved_bytes", {}).get("all", {})
        return {FIELD: [held.get("peak", 0), held.get("current", 0)]}


class DeviceMemory:
    """Beside the workers: the peak of their memory together.

    One worker serves a request while the others hold what they have. What the CUDA contexts take (about 0.5 GB each)
    is not included.
    """

    def __init__(self) -> None:
        self.peak_bytes: int | None = None
        """Since `restart`; None on a CPU."""
        self._held: dict[int, int] = {}

    def restart(self) -> None:
        """Forget the peak so far."""
        self.peak_bytes = None

    def note(self, worker: int, response: Message) -> None:
        """Take a worker's memory from its response; the worker may be untrusted."""
        match response.pop(FIELD, None):
            case [int(peak), int(held)] if 0 <= peak <= MOST and 0 <= held <= MOST:
                others = sum(size for holder, size in list(self._held.items()) if holder != worker)
                self.peak_bytes = max(self.peak_bytes or 0, peak + others)
                self._held[worker] = held

    def forget(self, worker: int) -> None:
        """Count a worker no longer: it has ended."""
        self._held.pop(worker, None)


def keep_freed_memory() -> None:
    """Let this process use the processor's memory again that it has freed, as CUDA's allocator does with a GPU's.

    Else each call would wait for the system to provide what an earlier one gave back.
    """
    with contextlib.suppress(AttributeError):  # another C library than glibc
        options = ctypes.CDLL(None).mallopt
        options(_M_MMAP_MAX, 0)
        options(_M_TRIM_THRESHOLD, (1 << 31) - 1)
