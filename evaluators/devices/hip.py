"""AMD's GPUs, by HIP's runtime. Never run on one: it was tested with a library that answers as HIP's does."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from ...core import DeviceLimits
from ...core.devices import architecture
from .base import DeviceSupport, seen_in

_LIBRARY = "libamdhip64.so"
_ROCM = Path("/opt/rocm/lib")
_MULTIPROCESSORS = 63
"""hipDeviceAttributeMultiprocessorCount of hip_runtime_api.h."""
_PROPERTIES_BYTES = 1 << 14
"""More than hipDeviceProp_t, of 1472 bytes, has in any version: only its text 'gfx942:sramecc+' is looked for."""
_ARCHITECTURE = re.compile(rb"gfx[0-9a-f]{3,5}(?![0-9a-f])")


class Hip(DeviceSupport):
    """AMD's GPUs with a ROCm build of torch."""

    id = "hip"
    visible = "HIP_VISIBLE_DEVICES"
    hidden = "-1"
    files = ("kfd", "dri/renderD*")
    needed_file = "kfd"
    installed = ("/opt/rocm*",)
    counters = f"{__name__.rpartition('.devices')[0]}.profiling.rocprof"

    def seen(self, number: int) -> str:
        """Return a GPU's name for `visible`; HIP heeds CUDA's variable where its own is not set."""
        name = self.visible if os.environ.get(self.visible) else "CUDA_VISIBLE_DEVICES"
        return seen_in(name, number)

    def count(self) -> int:
        """Return the number of GPUs."""
        library, count = self._library(), ctypes.c_int(0)
        if library is None or library.hipGetDeviceCount(ctypes.byref(count)) != 0:
            return 0
        return count.value

    def name(self, number: int) -> str:
        """Return a name such as 'AMD Instinct MI300X'."""
        name = ctypes.create_string_buffer(256)
        self._library().hipDeviceGetName(name, len(name), ctypes.c_int(number))
        return name.value.decode()

    def limits(self, number: int) -> DeviceLimits:
        """Return the architecture's limits, and the number of multiprocessors from the runtime."""
        library, count = self._library(), ctypes.c_int(0)
        library.hipDeviceGetAttribute(ctypes.byref(count), _MULTIPROCESSORS, ctypes.c_int(number))
        of = architecture(self._architecture(library, number))
        return DeviceLimits(
            architecture=of.name,
            multiprocessors=count.value,
            shared_bytes=of.block_shared_bytes,
            registers=of.registers,
            threads=of.threads,
        )

    def driver_version(self) -> str | None:
        """Return the version of the kernel's module amdgpu."""
        try:
            return Path("/sys/module/amdgpu/version").read_text().strip()
        except OSError:
            return None

    def runtime_version(self) -> dict[str, str]:
        """Return HIP's version."""
        import torch

        return {"hip": torch.version.hip or ""}

    def _architecture(self, library: Any, number: int) -> str:
        """Return 'gfx942': HIP names it in a structure alone, whose layout depends on the version."""
        properties = ctypes.create_string_buffer(_PROPERTIES_BYTES)
        ask = getattr(library, "hipGetDevicePropertiesR0600", None) or library.hipGetDeviceProperties
        ask(properties, ctypes.c_int(number))
        found = _ARCHITECTURE.search(properties.raw)
        return found[0].decode() if found else "of this GPU"

    def _library(self) -> Any:
        """Return HIP's runtime: the system's, that of torch's wheel, or the toolkit's; None without one."""
        for path in chain([_LIBRARY], _installed_libraries()):
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
        return None


def _installed_libraries() -> Iterator[str]:
    spec = importlib.util.find_spec("torch")
    folders = [Path(path, "lib") for path in (spec and spec.submodule_search_locations) or ()]
    for folder in (*folders, _ROCM):
        yield from map(str, sorted(folder.glob("libamdhip64.so*")))


HIP = Hip()
