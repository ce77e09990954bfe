"""Telemetry, from a library that answers as NVML does: built from a few lines of C++, called like the real one."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable

import pynvml
import pytest
from kernelwright.evaluators.devices import CUDA
from kernelwright.evaluators.timing.telemetry import EVERY_S, Telemetry, memory_of

NVML = r"""
#include <cstring>
static unsigned asked = 0;
extern "C" {
int nvmlInitWithFlags(unsigned) { asked = 0; return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned) { strcpy(text, "580.1"); return 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
    *handle = (void*)0x700000000123;
    return strcmp(uuid, "GPU-abc") ? 6 : 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
    *handle = (void*)0x700000000123;
    return index ? 2 : 0;
}
static int known(void* handle) { return handle == (void*)0x700000000123 ? 0 : 1; }
int nvmlDeviceGetClockInfo(void* handle, unsigned type, unsigned* mhz) {
    asked += type == 1;
    *mhz = type == 1 ? 1900 + 10 * asked : 3201;
    return known(handle);
}
int nvmlDeviceGetTemperature(void*, unsigned, unsigned*) { return 3; }
struct Memory { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void* handle, Memory* memory) {
    memory->total = 80ull << 30, memory->used = 3ull << 29;
    return known(handle);
}
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) { *milliwatts = 250500; return known(handle); }
int nvmlDeviceGetCurrentClocksEventReasons(void* handle, unsigned long long* reasons) {
    *reasons = asked % 4 == 1 ? 0x20 : 0x1;
    return known(handle);
}
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("nvml")
    source, library = folder / "nvml.cpp", folder / "libnvidia-ml.so.1"
    source.write_text(NVML)
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return str(library)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have pynvml load this library, as the first time."""

    def loaded(library: str) -> None:
        monkeypatch.setattr(pynvml, "nvmlLib", None)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        monkeypatch.setattr(pynvml, "CDLL", lambda name: ctypes.CDLL(library))

    return loaded


@pytest.fixture
def nvml(built: str, load: Callable[[str], None]) -> None:
    load(built)


class Time:
    """Passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.usefixtures("nvml")
def test_the_memory_that_all_processes_use() -> None:
    assert memory_of("abc") == (1.5, 80.0)
    assert memory_of("of another machine") is None


@pytest.mark.usefixtures("nvml")
def test_medians_of_what_the_gpu_reports() -> None:
    now = Time()
    telemetry = Telemetry("abc", now)
    assert telemetry.medians() == {}
    for _ in range(4):
        telemetry.sample()
        telemetry.sample()  # at once again: not looked at
        now.now += 2 * EVERY_S
    found = telemetry.medians()
    assert found == {"sm_mhz": 1925.0, "memory_mhz": 3201.0, "power_w": 250.5, "throttled": 0.25}
    telemetry.restart()
    assert telemetry.medians() == {}
    telemetry.sample()
    assert telemetry.medians()["sm_mhz"] == 1950.0


@pytest.mark.usefixtures("nvml")
def test_a_gpu_by_number_or_full_uuid() -> None:
    for name in (0, "GPU-abc"):
        telemetry = Telemetry(name)
        telemetry.sample()
        assert telemetry.medians()["memory_mhz"] == 3201.0
    assert CUDA.driver_version() == "580.1"


@pytest.mark.usefixtures("nvml")
@pytest.mark.parametrize("gpu", ["other", 3])
def test_without_the_gpu_there_are_no_metrics(gpu: str | int) -> None:
    telemetry = Telemetry(gpu)
    telemetry.sample()
    assert telemetry.medians() == {}


def test_without_nvml_there_are_no_metrics(load: Callable[[str], None]) -> None:
    load("no-such-library.so")
    telemetry = Telemetry("abc")
    telemetry.sample()
    assert telemetry.medians() == {}
    assert CUDA.driver_version() is None


@pytest.mark.gpu
def test_a_real_gpu_has_telemetry() -> None:
    import torch

    torch.ones(1, device="cuda")
    telemetry = Telemetry(str(torch.cuda.get_device_properties(0).uuid))
    telemetry.sample()
    found = telemetry.medians()
    assert found["sm_mhz"] > 100 and found["memory_mhz"] > 100
    assert 10 < found["temperature_c"] < 110 and found["power_w"] > 10
    assert CUDA.driver_version()
