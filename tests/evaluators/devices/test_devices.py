"""Kinds of devices as processes know them: AMD's by a library that answers as HIP's runtime does, and a third kind."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from kernelwright.core import DeviceError, OptionError
from kernelwright.evaluators import devices
from kernelwright.evaluators.profiling import rocprof
from kernelwright.evaluators.reference import description
from kernelwright.evaluators.timing import l2_flush
from kernelwright.runtime import devices as choosing

from ...faked_hip import built, faked_hip
from ...toy_distribution import broken_site, installed

THIRD = """
from kernelwright.evaluators.devices import DeviceSupport


class Toy(DeviceSupport):
    id, visible, files = "toy", "TOY_VISIBLE_DEVICES", ("null",)

    def count(self):
        return 3


SUPPORT, OTHER = Toy(), 7
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("hip"))


@pytest.fixture
def hip(library: Path) -> Iterator[None]:
    with faked_hip(library):
        yield


@pytest.mark.usefixtures("hip")
class TestHip:
    def test_devices_are_chosen_and_named(self) -> None:
        assert choosing.cuda_devices() == 2
        assert choosing.choose_devices("auto") == ["cuda"]
        assert choosing.choose_devices("cuda:0,cuda:1") == ["cuda:0", "cuda:1"]
        assert choosing.device_label("cuda:1") == "AMD Instinct MI355X"
        with pytest.raises(DeviceError, match=r"no device cuda:2: the driver shows 2 GPU\(s\)"):
            choosing.choose_devices("cuda:2")

    def test_limits_are_the_architectures_with_the_runtimes_count(self) -> None:
        limits = choosing.device_limits("cuda")
        assert (limits.architecture, limits.multiprocessors, limits.shared_bytes) == ("gfx942", 304, 65536)
        assert choosing.device_limits("cuda:1").architecture == "gfx950"
        assert choosing.multiprocessors("cuda:1") == 256
        device = choosing.device_of("cuda")
        assert (device.file_name, device.architecture, device.has_fp8) == ("AMD_Instinct_MI300X", "gfx942", True)

    def test_a_worker_sees_one_gpu_by_hips_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HIP_VISIBLE_DEVICES", "4,6")
        assert devices.visible_gpu(1) == {"HIP_VISIBLE_DEVICES": "6"}
        monkeypatch.delenv("HIP_VISIBLE_DEVICES")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")  # which HIP heeds then
        assert devices.visible_gpu(1) == {"HIP_VISIBLE_DEVICES": "3"}
        assert devices.no_gpus() == {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}

    def test_what_needs_nvidias_driver_is_left_out(self) -> None:
        support = devices.present()
        assert support is not None
        assert l2_flush.driver() is None and not support.sanitizer
        assert support.counters == rocprof.__name__

    def test_the_cache_between_l2_and_memory_is_emptied_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        properties = SimpleNamespace(
            name="AMD Instinct MI300X", major=9, minor=4, gcnArchName="gfx942:sramecc+:xnack-", L2_cache_size=4 << 20,
            multi_processor_count=304, max_threads_per_multi_processor=2048,
        )  # fmt: skip
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: properties)
        made: list[int] = []
        really = torch.empty

        def empty(size: int, **_: object) -> torch.Tensor:
            made.append(size)
            return really(16, dtype=torch.uint8)

        monkeypatch.setattr(torch, "empty", empty)
        cache = l2_flush.L2("cuda")
        assert made == [l2_flush.MEMORY_CACHE_TIMES * (256 << 20)]
        assert cache.kernel == l2_flush.FALLBACK
        cache._buffer.fill_(1)
        cache.reset_persisting()
        cache.flush()
        assert not cache._buffer.any()

    def test_records_name_hip_and_the_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.version, "hip", "7.0.51831")
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "AMD Instinct MI300X")
        properties = SimpleNamespace(pci_domain_id=0, pci_bus_id=29, pci_device_id=0)  # builds without `uuid`
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: properties)
        found = description.environment("cuda:0")
        assert (found["device"], found["hip"], found["uuid"]) == ("AMD Instinct MI300X", "7.0.51831", "pci-0-29-0")
        assert "cuda" not in found


def test_without_a_driver_there_is_no_gpu() -> None:
    if choosing.cuda_devices():
        pytest.skip("this machine has a GPU")
    assert devices.present() is None and devices.driver_version() is None
    with pytest.raises(DeviceError, match="no driver shows a GPU; use `device` cpu"):
        choosing.device_limits("cuda")


def test_the_files_of_another_graphics_card_are_not_amds(tmp_path: Path) -> None:
    (tmp_path / "dri").mkdir()
    for name in ("nvidia0", "dri/renderD128"):
        (tmp_path / name).touch()
    assert devices.device_files(tmp_path) == [tmp_path / "nvidia0"]
    (tmp_path / "kfd").touch()
    assert tmp_path / "dri/renderD128" in devices.device_files(tmp_path)


def test_a_third_kind_is_one_file(tmp_path: Path) -> None:
    group = devices.ENTRIES.name
    site = broken_site(tmp_path, group, {"toy": "third_support:SUPPORT"}, {"third_support": THIRD})
    with installed(site):
        importlib.invalidate_caches()
        assert [support.id for support in devices.supports()] == ["cuda", "hip", "toy"]
        assert devices.no_gpus()["TOY_VISIBLE_DEVICES"] == ""
        assert Path("/dev/null") in devices.device_files()
    assert "TOY_VISIBLE_DEVICES" not in devices.no_gpus()


def test_what_is_no_support_is_one_line(tmp_path: Path) -> None:
    site = broken_site(tmp_path, devices.ENTRIES.name, {"toy": "third_support:OTHER"}, {"third_support": THIRD})
    with installed(site):
        importlib.invalidate_caches()
        with pytest.raises(OptionError, match=r"is not a kernelwright.evaluators.devices.DeviceSupport: it is of type"):
            devices.supports()
