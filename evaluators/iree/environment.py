"""The versions and the device that IREE's measurements depend on."""

from __future__ import annotations

import ctypes
import platform
import uuid

from ..devices import CUDA
from .target import COMPILER, RUNTIME, IreeTarget, installed


def environment(target: IreeTarget, label: str, release: str, sandbox: str) -> dict[str, str]:
    """Return device, versions and the sandbox that is used as texts for the record; `label` names the device."""
    found = {
        "device": label or target.device, "chip": target.named_chip, "python": platform.python_version(),
        "sandbox": sandbox,
    }  # fmt: skip
    versions = {COMPILER: release or installed(COMPILER), RUNTIME: installed(RUNTIME)}
    found |= {name: version for name, version in versions.items() if version}
    if not target.on_cpu and (number := gpu_uuid(target.device)) is not None:
        found["uuid"] = number
    return found


def gpu_uuid(device: str) -> str | None:
    """Return a GPU's UUID, written as torch does, by which all kernelwright processes lock it; None without one."""
    driver = CUDA.driver()
    if driver is None:
        return None
    handle, found = ctypes.c_int(0), (ctypes.c_ubyte * 16)()
    driver.cuInit(0)
    if driver.cuDeviceGet(ctypes.byref(handle), int(device.partition(":")[2] or 0)):
        return None
    driver.cuDeviceGetUuid(ctypes.byref(found), handle)
    return str(uuid.UUID(bytes=bytes(found)))
