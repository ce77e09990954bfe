"""Devices: which exist, which one is selected, and their names. Nothing here imports torch."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import DeviceError, DeviceLimits, Target, of_backend
from ..core.environment import cores
from ..evaluators.remote.options import CPU as CPU
from ..evaluators.remote.options import CUDA as CUDA
from .options.groups import Backend

if TYPE_CHECKING:
    from ..tuners.gemm.device import Device


def cuda_devices() -> int:
    """Return the number of CUDA devices, from the driver itself, since torch takes a second to import."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def multiprocessors(device: str) -> int | None:
    """Return the number of a GPU's multiprocessors; None for a CPU, and without a driver."""
    if device == CPU or not cuda_devices():
        return None
    return _attribute(device, "multiprocessors") or None


def device_label(device: str) -> str:
    """Return the name of a device, such as 'NVIDIA H200' or the processor's with its cores."""
    if device == CPU:
        lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        return f"{names[0] if names else platform.machine()}, {cores()} cores"
    driver, handle = _driver_and_handle(device)
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, len(name), handle)
    return name.value.decode()


_ATTRIBUTES = {"major": 75, "minor": 76, "multiprocessors": 16, "shared_bytes": 97, "registers": 82, "threads": 39}
"""CU_DEVICE_ATTRIBUTE_* of cuda.h: the compute capability, and per multiprocessor or block what `DeviceLimits` says."""


def device_limits(device: str) -> DeviceLimits:
    """Return a GPU's limits, from the driver."""
    found = {name: _attribute(device, name) for name in _ATTRIBUTES}
    return DeviceLimits(architecture=f"sm_{10 * found.pop('major') + found.pop('minor')}", **found)


def _attribute(device: str, name: str) -> int:
    driver, handle = _driver_and_handle(device)
    value = ctypes.c_int(0)
    driver.cuDeviceGetAttribute(ctypes.byref(value), _ATTRIBUTES[name], handle)
    return value.value


def _driver_and_handle(device: str) -> tuple[ctypes.CDLL, ctypes.c_int]:
    driver, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(0)
    driver.cuInit(0)
    driver.cuDeviceGet(ctypes.byref(handle), int(device.partition(":")[2] or 0))
    return driver, handle


def device_of(name: str) -> Device:
    """Return the device as files and estimates know it. A CPU has the limits of an H200, for checks of files."""
    from ..tuners.gemm.device import H200_LIMITS, Device  # with it comes numpy, which few commands need

    if name == CPU:
        return Device("cpu", H200_LIMITS)
    return Device(device_label(name), device_limits(name))


def choose_device(wanted: str, backend: Backend | None = None) -> str:
    """Return the requested device; for 'auto' the best for a backend. Raises `DeviceError` if it does not exist."""
    devices = cuda_devices()
    if wanted == "auto":
        on_cpu = backend is not None and of_backend(backend)[1] is Target.CPU
        return CPU if not devices or on_cpu else CUDA
    if wanted == CPU:
        return CPU
    name, _, number = wanted.partition(":")
    if name != CUDA or (number and not number.isdigit()):
        raise DeviceError(f"no device {wanted!r}", "use cpu, cuda, cuda:N or auto")
    if int(number or 0) >= devices:
        raise DeviceError(f"no device {wanted}: the driver shows {devices} CUDA device(s)", "use `device` cpu")
    return wanted


def choose_devices(wanted: str, backend: Backend | None = None) -> list[str]:
    """Return the devices of a list such as 'cuda:0,cuda:1'."""
    chosen = [choose_device(name.strip(), backend) for name in wanted.split(",")]
    if len(set(chosen)) != len(chosen):
        raise DeviceError(f"`device` {wanted} names a device twice")
    if len(chosen) > 1 and CPU in chosen:
        raise DeviceError(f"`device` {wanted}: several devices must all be GPUs")
    return chosen
