"""The state of a GPU while it is timed: clocks, temperature, power, throttling.

Read from NVML, the driver's own library, which opens no CUDA context.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ..devices import open_nvml

EVERY_S = 0.02
"""Samples are no closer than this: a query takes some microseconds, of power up to a millisecond."""
_THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""Reasons to slow down: software power cap, hardware slowdown, software thermal, hardware thermal, power brake."""


class Telemetry:
    """One GPU, named by its UUID (with or without 'GPU-') or by its number among all of the machine.

    Without NVML, or for a GPU that it does not know, there are no metrics. Call `sample` between timings, not
    during one.
    """

    def __init__(self, gpu: str | int, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._taken_at: float | None = None
        self._seen: dict[str, list[float]] = {}
        self._nvml = open_nvml()
        self._handle = self._find(gpu)

    def sample(self) -> None:
        """Look at the GPU, unless it was looked at a moment ago."""
        now = self._now()
        if self._handle is None or (self._taken_at is not None and now - self._taken_at < EVERY_S):
            return
        self._taken_at = now
        nvml = self._nvml
        self._note("sm_mhz", self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM))
        self._note("memory_mhz", self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM))
        self._note("temperature_c", self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU))
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage)
        self._note("power_w", None if milliwatts is None else milliwatts / 1000)
        reasons = self._ask(nvml.nvmlDeviceGetCurrentClocksEventReasons)
        self._note("throttled", None if reasons is None else float(bool(reasons & _THROTTLED)))

    def memory(self) -> Any:
        """Return bytes `used` by processes, and the `total`; None for a GPU that does not tell."""
        if self._handle is None:
            return None
        return self._ask(self._nvml.nvmlDeviceGetMemoryInfo, self._nvml.nvmlMemory_v2)

    def medians(self) -> dict[str, float]:
        """sm_mhz, memory_mhz, temperature_c, power_w as medians; throttled as the share of samples.

        Values that the GPU does not report are left out; empty before the first sample.
        """
        typical = {name: statistics.median(values) for name, values in self._seen.items() if name != "throttled"}
        if "throttled" in self._seen:
            typical["throttled"] = statistics.fmean(self._seen["throttled"])
        return typical

    def restart(self) -> None:
        """Forget what was seen."""
        self._seen.clear()
        self._taken_at = None

    def _note(self, name: str, value: float | None) -> None:
        if value is not None:
            self._seen.setdefault(name, []).append(float(value))

    def _ask(self, function: Callable[..., Any], *arguments: int) -> Any:
        try:
            return function(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None

    def _find(self, gpu: str | int) -> Any:
        if self._nvml is None:
            return None
        try:
            if isinstance(gpu, int):
                return self._nvml.nvmlDeviceGetHandleByIndex(gpu)
            return self._nvml.nvmlDeviceGetHandleByUUID(gpu if gpu.startswith("GPU-") else f"GPU-{gpu}")
        except self._nvml.NVMLError:
            return None


class MemoryInUse(NamedTuple):
    """The memory of a GPU, and what all processes together use of it."""

    used_gib: float
    total_gib: float


def memory_of(gpu: str | int) -> MemoryInUse | None:
    """Return the memory of a GPU, named as for `Telemetry`; None where it does not tell."""
    found = Telemetry(gpu).memory()
    return None if found is None else MemoryInUse(found.used / 2**30, found.total / 2**30)
