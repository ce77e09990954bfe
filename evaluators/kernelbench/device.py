"""The device of a KernelBench worker: the few differences between a GPU and a CPU.

KernelBench supports GPUs only. On a CPU the wall clock replaces events; all else is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

FLUSH = (32, 1024, 1024)
"""Shape of the int64 tensor that is filled before each timed call: 256 MiB."""


class TimedDevice(Protocol):
    """A device and its clock."""

    name: str
    label: str
    """KernelBench's name of the device: 'cuda:0'."""
    torch_device: str

    def set_seed(self, seed: int) -> None:
        """Seed torch's random numbers, on the device too."""

    def synchronize(self) -> None:
        """Wait until the device has finished its work."""

    def forget_free_memory(self) -> None:
        """Return cached memory to the device."""

    def time(self, call: Callable[[], object]) -> float:
        """Return the milliseconds of one call on cold caches."""


def open_device(kind: str, label: str) -> TimedDevice:
    """Return the device of this worker: 'cuda', of which it sees one, or 'cpu'."""
    return CudaDevice(label) if kind == "cuda" else CpuDevice(label)


class CudaDevice:
    """The one GPU that the worker sees; `label` is its name for the user."""

    torch_device = "cuda:0"

    def __init__(self, label: str) -> None:
        import torch

        self._torch: Any = torch
        self.label = label
        torch.cuda.set_device(0)
        self.name = str(torch.cuda.get_device_name(0))

    def set_seed(self, seed: int) -> None:
        """See `TimedDevice`."""
        self._torch.manual_seed(seed)
        self._torch.cuda.manual_seed(seed)

    def synchronize(self) -> None:
        """See `TimedDevice`."""
        self._torch.cuda.synchronize(device=0)

    def forget_free_memory(self) -> None:
        """See `TimedDevice`."""
        self._torch.cuda.empty_cache()

    def time(self, call: Callable[[], object]) -> float:
        """See `TimedDevice`: by CUDA events."""
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

        from ..reference.description import device_name

        self._torch: Any = torch
        self.label = label
        self.name = device_name("cpu")

    def set_seed(self, seed: int) -> None:
        """See `TimedDevice`."""
        self._torch.manual_seed(seed)

    def synchronize(self) -> None:
        """Do nothing: a CPU call is synchronous."""
        pass

    def forget_free_memory(self) -> None:
        """Do nothing: the CPU has no cache of free memory."""
        pass

    def time(self, call: Callable[[], object]) -> float:
        """See `TimedDevice`: by the wall clock."""
        self._torch.empty(FLUSH, dtype=self._torch.int64).fill_(42)
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e3
