"""A machine with AMD's GPUs, as far as HIP's runtime tells: a library that answers as HIP's does.

It is built with HIP's own header, which Triton's package carries, so that structures and numbers are HIP's.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import triton
from kernelwright.evaluators import devices
from kernelwright.evaluators.devices import HIP

HEADERS = Path(triton.__file__).parent / "backends" / "amd" / "include"
SOURCE = r"""
#define __HIP_PLATFORM_AMD__
#include <string.h>
#include <hip/hip_runtime_api.h>
hipError_t hipGetDeviceCount(int* count) { *count = 2; return hipSuccess; }
hipError_t hipDeviceGetName(char* name, int size, hipDevice_t device) {
    strncpy(name, device ? "AMD Instinct MI355X" : "AMD Instinct MI300X", size);
    return hipSuccess;
}
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
    if (attribute != hipDeviceAttributeMultiprocessorCount) return hipErrorInvalidValue;
    *value = device ? 256 : 304;
    return hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) {
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, device ? "AMD Instinct MI355X" : "AMD Instinct MI300X");
    strcpy(properties->gcnArchName, device ? "gfx950:sramecc+:xnack-" : "gfx942:sramecc+:xnack-");
    return hipSuccess;
}
"""


def built(folder: Path) -> Path:
    """Return the library."""
    source, library = folder / "hip.c", folder / "libamdhip64.so"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", f"-I{HEADERS}", str(source), "-o", str(library)], check=True)
    return library


@contextlib.contextmanager
def faked_hip(library: Path) -> Iterator[None]:
    """Inside, the machine has a MI300X and a MI355X, and nothing of NVIDIA's."""
    devices.present.cache_clear()
    with (
        mock.patch.object(devices.CUDA.__class__, "driver", return_value=None),
        mock.patch("kernelwright.evaluators.devices.hip._LIBRARY", str(library)),
    ):
        assert devices.present() is HIP
        yield
    devices.present.cache_clear()
