"""What the evaluator asks of a kind of device. Torch's build for it answers as `torch.cuda`, as ROCm's does."""

from __future__ import annotations

import os
from typing import Any

from ...core import DeviceError, DeviceLimits


def seen_in(variable: str, number: int) -> str:
    """Return the name of a device by its index among those that a variable shows."""
    shown = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
    return shown[number] if number < len(shown) else str(number)


class DeviceSupport:
    """One kind of device. Without a driver it has no devices; a method that is not overridden says so."""

    id: str
    """Of its `core.devices.DeviceKind`, which is also the backend of Triton's targets."""
    visible: str
    """The variable that says which devices a process sees."""
    hidden: str = ""
    """Its value where a process is to see none."""
    files: tuple[str, ...] = ()
    """Patterns of its files in /dev."""
    needed_file: str = ""
    """The file in /dev without which the others belong to devices of another kind."""
    installed: tuple[str, ...] = ()
    """Patterns of the folders that its toolkit is installed to."""
    counters: str = ""
    """The module of the vendor's profiler, a `profiling.counters.CounterTool`; '' where none is known."""
    sanitizer: bool = False
    """Whether compute-sanitizer checks its kernels."""

    def count(self) -> int:
        """Return the number of devices, from the driver: torch takes a second to import."""
        return 0

    def name(self, number: int) -> str:
        """Return the name that its driver reports for a device."""
        raise DeviceError(f"there is no device {number} of kind {self.id}")

    def limits(self, number: int) -> DeviceLimits:
        """Return a device's limits, from the driver."""
        raise DeviceError(f"there is no device {number} of kind {self.id}")

    def seen(self, number: int) -> str:
        """Return the name of a device for `visible`, by its index among those that this process sees."""
        return seen_in(self.visible, number)

    def driver(self) -> Any:
        """Return a library with the API of CUDA's driver.

        Without it torch's fill empties the L2 cache, multiprocessors are not scrubbed, and the driver's limits are not
        watched.
        """
        return None

    def driver_version(self) -> str | None:
        """Return the driver's version, such as '580.159.04'; None where it does not tell."""
        return None

    def runtime_version(self) -> dict[str, str]:
        """Return the version of what torch was built for, by the name that records have; imports torch."""
        return {}
