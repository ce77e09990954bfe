"""The state of a GPU while it is timed: clocks, temperature, power, throttling.

Read from NVML, the driver's own library, by ctypes: it comes with every driver, needs nothing installed, and opens no
CUDA context. Signatures and constants are those of nvml.h, which are kept stable.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
EVERY_S = 0.02
"""Samples are no closer than this: a query takes some microseconds, of power up to a millisecond."""
_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_GPU_TEMPERATURE = 0
_THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""Reasons to slow down: software power cap, hardware slowdown, software thermal, hardware thermal, power brake."""
_TEXT_BYTES = 96


class Telemetry:
    """One GPU, named by its UUID (with or without 'GPU-') or by its number among all of the machine.

    Without NVML, or for a GPU that it does not know, there are no figures. Call `sample` between timings, not
    during one.
    """

    def __init__(self, gpu: str | int, library: str = LIBRARY, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._taken_at: float | None = None
        self._seen: dict[str, list[float]] = {}
        self._nvml = _open(library)
        self._handle = _find(self._nvml, gpu) if self._nvml else None

    def sample(self) -> None:
        """Look at the GPU, unless it was looked at a moment ago."""
        now = self._now()
        if self._handle is None or (self._taken_at is not None and now - self._taken_at < EVERY_S):
            return
        self._taken_at = now
        self._note("sm_mhz", self._ask("nvmlDeviceGetClockInfo", _SM_CLOCK))
        self._note("memory_mhz", self._ask("nvmlDeviceGetClockInfo", _MEMORY_CLOCK))
        self._note("temperature_c", self._ask("nvmlDeviceGetTemperature", _GPU_TEMPERATURE))
        milliwatts = self._ask("nvmlDeviceGetPowerUsage")
        self._note("power_w", None if milliwatts is None else milliwatts / 1000)
        reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", form=ctypes.c_ulonglong)
        self._note("throttled", None if reasons is None else float(bool(reasons & _THROTTLED)))

    def medians(self) -> dict[str, float]:
        """sm_mhz, memory_mhz, temperature_c, power_w as medians; throttled as the share of samples.

        What the GPU does not tell is left out; empty before the first sample.
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

    def _ask(self, function: str, *arguments: int, form: Any = ctypes.c_uint) -> int | None:
        answer = form()
        asked = getattr(self._nvml, function, None)
        if asked is None or asked(self._handle, *arguments, ctypes.byref(answer)):
            return None
        return int(answer.value)


def driver_version(library: str = LIBRARY) -> str | None:
    """The NVIDIA driver's version, such as '580.159.04'; None without one."""
    nvml = _open(library)
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    if nvml is None or nvml.nvmlSystemGetDriverVersion(text, _TEXT_BYTES):
        return None
    return text.value.decode()


def _open(library: str) -> Any:
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return None
    return None if nvml.nvmlInit_v2() else nvml


def _find(nvml: Any, gpu: str | int) -> ctypes.c_void_p | None:
    handle = ctypes.c_void_p()
    if isinstance(gpu, int):
        failed = nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(handle))
    else:
        uuid = gpu if gpu.startswith("GPU-") else f"GPU-{gpu}"
        failed = nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle))
    return None if failed else handle
