"""Where a worker of this protocol computes: the few things that differ between a GPU and a CPU.

KernelBench knows GPUs only. On a CPU the wall clock stands in for events, and all else stays the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

FLUSH = (32, 1024, 1024)
"""Shape of the int64 tensor that is filled before each timed call: 256 MiB."""


class Device(Protocol):
    """A device and its clock."""

    name: str
    label: str
    """What KernelBench prints for it: 'cuda:0'."""
    torch_device: str

    def set_seed(self, seed: int) -> None: ...
    def synchronize(self) -> None: ...
    def forget_free_memory(self) -> None: ...
    def time(self, call: Callable[[], object]) -> float:
        """Milliseconds of one call on cold caches."""


def open_device(kind: str, label: str) -> Device:
    """The device of this worker: 'cuda', of which it sees one, or 'cpu'."""
    return CudaDevice(label) if kind == "cuda" else CpuDevice(label)


class CudaDevice:
    """The one GPU that the worker sees; `label` is what the user calls it."""

    torch_device = "cuda:0"

    def __init__(self, label: str) -> None:
        import torch

        self._torch: Any = torch
        self.label = label
        torch.cuda.set_device(0)
        self.name = str(torch.cuda.get_device_name(0))

    def set_seed(self, seed: int) -> None:
        self._torch.manual_seed(seed)
        self._torch.cuda.manual_seed(seed)

    def synchronize(self) -> None:
        self._torch.cuda.synchronize(device=0)

    def forget_free_memory(self) -> None:
        self._torch.cuda.empty_cache()

    def time(self, call: Callable[[], object]) -> float:
        torch = self._torch
        self.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.empty(FLUSH, dtype=torch.int64, device=self.torch_device).fill_(42)
        start.record()
        call()
        end.record()
        self.synchronize()
        return float(start.elapsed_time(end))


class CpuDevice:
    """The processor."""

    torch_device = "cpu"

    def __init__(self, label: str) -> None:
        import torch

        from ..reference.worker import device_name

        self._torch: Any = torch
        self.label = label
        self.name = device_name("cpu")

    def set_seed(self, seed: int) -> None:
        self._torch.manual_seed(seed)

    def synchronize(self) -> None:
        pass

    def forget_free_memory(self) -> None:
        pass

    def time(self, call: Callable[[], object]) -> float:
        self._torch.empty(FLUSH, dtype=self._torch.int64).fill_(42)
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e3
