"""Kinds of devices as processes that use them know them. Another kind is one file: a `DeviceSupport`.

`supports` has the built-in ones, then those that installed packages declare by the entry point group
`kernelwright.device_supports`. Each has the id of a kind of `core.devices`, which describes its architectures.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ...entry_points import EntryGroup
from .base import DeviceSupport as DeviceSupport
from .cuda import CUDA as CUDA
from .cuda import open_nvml as open_nvml
from .hip import HIP as HIP

BUILT_IN = (CUDA, HIP)
ENTRIES = EntryGroup(
    "kernelwright.device_supports",
    "support of a kind of device",
    DeviceSupport,
    "kernelwright.evaluators.devices.DeviceSupport",
)


def supports() -> tuple[DeviceSupport, ...]:
    """Return all kinds: the built-in ones, then plug-ins."""
    return (*BUILT_IN, *map(ENTRIES.load, ENTRIES.points))


@lru_cache(maxsize=1)
def present() -> DeviceSupport | None:
    """Return the first kind that has a device in this machine; None where there is no GPU.

    It asks drivers, so never call it in a process from which those that use a GPU are forked.
    """
    return next((support for support in supports() if support.count()), None)


def driver_version() -> str | None:
    """Return the version of the driver of this machine's GPUs; None without one, or where it does not tell."""
    support = present()
    return support.driver_version() if support is not None else None


def visible_gpu(number: int) -> dict[str, str]:
    """Return the variables that show a process one GPU only, by its index among those that this process sees.

    A worker sees no other: for Triton the first GPU is the current one, wherever the tensors are.
    """
    support = present() or CUDA
    return {support.visible: support.seen(number)}


def no_gpus() -> dict[str, str]:
    """Return the variables that hide all GPUs, of whatever kind, from a process."""
    return {support.visible: support.hidden for support in supports()}


def device_files(folder: Path = Path("/dev")) -> list[Path]:
    """Return the files by which processes use the GPUs of this machine."""
    there = [support for support in supports() if (folder / support.needed_file).exists()]
    return sorted(path for support in there for pattern in support.files for path in folder.glob(pattern))
