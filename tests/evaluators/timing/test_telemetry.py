"""Telemetry, from a library that answers as NVML does: built from a few lines of C++, loaded like the real one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from kernelwright.evaluators.timing.telemetry import EVERY_S, Telemetry, driver_version

NVML = r"""
#include <cstring>
static unsigned asked = 0;
extern "C" {
int nvmlInit_v2() { return 0; }
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
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) { *milliwatts = 250500; return known(handle); }
int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
    *reasons = asked % 4 == 1 ? 0x20 : 0x1;
    return known(handle);
}
}
"""


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("nvml")
    source, library = folder / "nvml.cpp", folder / "libnvml.so"
    source.write_text(NVML)
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return str(library)


class Time:
    """Passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_medians_of_what_the_gpu_tells(nvml: str) -> None:
    now = Time()
    telemetry = Telemetry("abc", nvml, now)
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


def test_a_gpu_by_number_or_full_uuid(nvml: str) -> None:
    for name in (0, "GPU-abc"):
        telemetry = Telemetry(name, nvml)
        telemetry.sample()
        assert telemetry.medians()["memory_mhz"] == 3201.0
    assert driver_version(nvml) == "580.1"


def test_without_nvml_or_the_gpu_there_are_no_figures(nvml: str, tmp_path: Path) -> None:
    for telemetry in (Telemetry("other", nvml), Telemetry(3, nvml), Telemetry("abc", str(tmp_path / "none.so"))):
        telemetry.sample()
        assert telemetry.medians() == {}
    assert driver_version(str(tmp_path / "none.so")) is None


@pytest.mark.gpu
def test_a_real_gpu_tells() -> None:
    import torch

    torch.ones(1, device="cuda")
    telemetry = Telemetry(str(torch.cuda.get_device_properties(0).uuid))
    telemetry.sample()
    found = telemetry.medians()
    assert found["sm_mhz"] > 100 and found["memory_mhz"] > 100
    assert 10 < found["temperature_c"] < 110 and found["power_w"] > 10
    assert driver_version()
