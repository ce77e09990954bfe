"""Devices: which exist, which one is selected, and their names. Nothing here imports torch."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import DeviceError, DeviceLimits, Target, of_backend
from ..core.environment import cores
from ..evaluators.devices import DeviceSupport, present
from ..evaluators.remote.options import CPU as CPU
from ..evaluators.remote.options import CUDA as CUDA
from .options.groups import Backend

if TYPE_CHECKING:
    from ..tuners.gemm.device import Device


def cuda_devices() -> int:
    """Return the number of GPUs that torch calls CUDA devices: NVIDIA's, or AMD's in a ROCm build.

    The number comes from drivers, since importing torch takes a second.
    """
    support = present()
    return support.count() if support is not None else 0


def multiprocessors(device: str) -> int | None:
    """Return the number of a GPU's multiprocessors; None for a CPU, and without a driver."""
    if device == CPU or not cuda_devices():
        return None
    return device_limits(device).multiprocessors or None


def device_label(device: str) -> str:
    """Return the name of a device, such as 'NVIDIA H200' or the processor's with its cores."""
    if device == CPU:
        lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        return f"{names[0] if names else platform.machine()}, {cores()} cores"
    return _support(device).name(_number(device))


def device_limits(device: str) -> DeviceLimits:
    """Return a GPU's limits, from the driver."""
    return _support(device).limits(_number(device))


def _support(device: str) -> DeviceSupport:
    support = present()
    if support is None:
        raise DeviceError(f"no device {device}: no driver shows a GPU", "use `device` cpu")
    return support


def _number(device: str) -> int:
    return int(device.partition(":")[2] or 0)


def device_of(name: str) -> Device:
    """Return the device for files and estimates. A CPU has the limits of an H200, for checks of files."""
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
        raise DeviceError(f"no device {wanted}: the driver shows {devices} GPU(s)", "use `device` cpu")
    return wanted


def choose_devices(wanted: str, backend: Backend | None = None) -> list[str]:
    """Return the devices of a list such as 'cuda:0,cuda:1'."""
    chosen = [choose_device(name.strip(), backend) for name in wanted.split(",")]
    if len(set(chosen)) != len(chosen):
        raise DeviceError(f"`device` {wanted} names a device twice")
    if len(chosen) > 1 and CPU in chosen:
        raise DeviceError(f"`device` {wanted}: several devices must all be GPUs")
    return chosen
