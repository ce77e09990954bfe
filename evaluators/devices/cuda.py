"""NVIDIA's GPUs, by CUDA's driver and NVML."""

from __future__ import annotations

import ctypes
from typing import Any

from ...core import DeviceLimits
from .base import DeviceSupport

_ATTRIBUTES = {"major": 75, "minor": 76, "multiprocessors": 16, "shared_bytes": 97, "registers": 82, "threads": 39}
"""CU_DEVICE_ATTRIBUTE_* of cuda.h: the compute capability, and per multiprocessor or block what `DeviceLimits` says."""


class Cuda(DeviceSupport):
    """NVIDIA's GPUs."""

    id = "cuda"
    visible = "CUDA_VISIBLE_DEVICES"
    files = ("nvidia*",)
    installed = ("/usr/local/cuda*",)
    sanitizer = True
    counters = f"{__name__.rpartition('.devices')[0]}.profiling.ncu"

    def driver(self) -> Any:
        """Return the driver's library; None without one."""
        try:
            return ctypes.CDLL("libcuda.so.1")
        except OSError:
            return None

    def count(self) -> int:
        """Return the number of GPUs."""
        driver, count = self.driver(), ctypes.c_int(0)
        if driver is None or driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return 0
        return count.value

    def name(self, number: int) -> str:
        """Return a name such as 'NVIDIA H200'."""
        driver, handle = self._opened(number)
        name = ctypes.create_string_buffer(256)
        driver.cuDeviceGetName(name, len(name), handle)
        return name.value.decode()

    def limits(self, number: int) -> DeviceLimits:
        """Return the driver's attributes."""
        driver, handle = self._opened(number)
        found = {}
        for name, attribute in _ATTRIBUTES.items():
            value = ctypes.c_int(0)
            driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, handle)
            found[name] = value.value
        return DeviceLimits(architecture=f"sm_{10 * found.pop('major') + found.pop('minor')}", **found)

    def _opened(self, number: int) -> tuple[Any, ctypes.c_int]:
        driver, handle = self.driver(), ctypes.c_int(0)
        driver.cuInit(0)
        driver.cuDeviceGet(ctypes.byref(handle), number)
        return driver, handle

    def driver_version(self) -> str | None:
        """Return NVML's answer."""
        nvml = open_nvml()
        if nvml is None:
            return None
        try:
            return str(nvml.nvmlSystemGetDriverVersion())
        except nvml.NVMLError:
            return None

    def runtime_version(self) -> dict[str, str]:
        """Return CUDA's version."""
        import torch

        return {"cuda": torch.version.cuda or ""}


CUDA = Cuda()


def open_nvml() -> Any:
    """Return NVML, or None where no driver is. It is opened as often as it is asked for, and never closed."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml
