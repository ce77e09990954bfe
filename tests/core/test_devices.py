"""What is known of architectures and GPUs that need not be here."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import DeviceError, DeviceLimits
from kernelwright.core.devices import (
    architecture,
    architecture_name,
    architectures,
    cards,
    kind_of,
    known_kinds,
    torch_properties,
)
from kernelwright.evaluators.profiling.gpu_properties import describe_gpu

from ..toy_distribution import broken_site, installed

KIB = 1024
THIRD_KIND = """
from kernelwright.core.devices import Architecture, Card, DeviceKind

CARD = Card("Toy 1", 4, 1 << 30, 1 << 20, 1000)
TOY = Architecture(
    "toy1", "Toy", "toy1", "toy1", warps=8, blocks=8, shared_bytes=1 << 15, block_shared_bytes=1 << 15,
    matrix=(), cards={"TOY": CARD},
)
KIND = DeviceKind(
    "toy", (TOY,), lambda given: given.get("toy"), lambda of, card: {"toy": of.name}, lambda name: None
)
"""


@pytest.mark.parametrize(
    ("name", "shared_kib", "block_kib", "threads", "warp", "triton"),
    [
        ("sm_80", 164, 163, 2048, 32, 80),
        ("sm_86", 100, 99, 1536, 32, 86),
        ("sm_89", 100, 99, 1536, 32, 89),
        ("sm_90", 228, 227, 2048, 32, 90),
        ("sm_100", 228, 227, 2048, 32, 100),
        ("sm_120", 100, 99, 1536, 32, 120),
        ("gfx90a", 64, 64, 2048, 64, "gfx90a"),
        ("gfx942", 64, 64, 2048, 64, "gfx942"),
        ("gfx950", 160, 160, 2048, 64, "gfx950"),
        ("gfx1201", 128, 64, 2048, 32, "gfx1201"),
    ],
)
def test_limits_of_architectures(
    name: str, shared_kib: int, block_kib: int, threads: int, warp: int, triton: int | str
) -> None:
    found = architecture(name)
    assert (found.shared_bytes, found.block_shared_bytes) == (shared_kib * KIB, block_kib * KIB)
    assert (found.threads, found.warp_size, found.triton) == (threads, warp, triton)
    assert found.suffix == str(triton)


def test_every_described_gpu_is_known_by_torchs_properties() -> None:
    for of, card in cards().values():
        properties = torch_properties(of, card)
        assert architecture_name(properties) == of.name
        limits = DeviceLimits.of_properties(properties)
        assert (limits.shared_bytes, limits.registers) == (of.block_shared_bytes, of.registers)
        assert limits.described is architecture(of.name)


@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx950", "gfx1201"])
def test_peak_rates_follow_from_units_and_clock(name: str) -> None:
    of = architecture(name)
    operations = 2 * of.fma_bytes / 2  # per clock, of fp16
    assert of.card.tflop_s["float16"] == pytest.approx(
        operations * of.card.multiprocessors * of.card.clock_mhz / 1e6, rel=0.005
    )


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"gcnArchName": "gfx942:sramecc+:xnack-", "major": 9, "minor": 4}, "gfx942"),
        ({"gcnArchName": "NVIDIA H200", "major": 9, "minor": 0}, "sm_90"),  # what a build for CUDA gives
        ({"major": 10, "minor": 3}, "sm_103"),
    ],
)
def test_an_architecture_is_named_by_torchs_properties(properties: dict[str, Any], name: str) -> None:
    assert architecture_name(properties) == name


def test_features_decide_what_kernels_may_use() -> None:
    def having(feature: str) -> set[str]:
        return {name for name, item in architectures().items() if getattr(item, feature)}

    assert having("warp_groups") == {"sm_90"}
    assert having("asynchronous") == {"sm_90", "sm_100"}
    assert having("descriptors") == {"sm_90", "sm_100", "sm_120"}
    assert having("float8") == {"sm_89", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950", "gfx1201"}


def test_a_newer_gpu_has_the_features_of_the_nearest_older_one() -> None:
    found = architecture("sm_103")
    assert (found.triton, found.suffix, found.asynchronous, found.warp_groups) == (103, "103", True, False)
    assert found.special_functions is None  # a newer one may have another rate
    assert not architecture("sm_70").float8
    assert "sm_103" not in architectures()


def test_an_unknown_architecture_is_one_line() -> None:
    with pytest.raises(DeviceError, match=r"no architecture 'gfx906'; use sm_75, .* or gfx1201"):
        architecture("gfx906")
    with pytest.raises(DeviceError, match="no architecture 'hopper'"):
        kind_of("hopper")


def test_older_records_have_a_compute_capability() -> None:
    record = {"capability": 90, "multiprocessors": 132, "shared_bytes": 232448, "registers": 65536, "threads": 2048}
    assert DeviceLimits.model_validate(record).architecture == "sm_90"


def test_another_kind_of_device_is_one_file(tmp_path: Path) -> None:
    site = broken_site(tmp_path, "kernelwright.devices", {"toy": "third_kind:KIND"}, {"third_kind": THIRD_KIND})
    with installed(site):
        importlib.invalidate_caches()
        assert [kind.id for kind in known_kinds()] == ["cuda", "hip", "toy"]
        of, card = cards()["TOY"]
        properties = torch_properties(of, card)
        assert DeviceLimits.of_properties(properties).architecture == "toy1"
    architecture.cache_clear()
    kind_of.cache_clear()
    assert "TOY" not in cards()


@pytest.mark.gpu
def test_the_gpu_of_this_machine_is_as_described() -> None:
    properties = describe_gpu("cuda")
    of = architecture(architecture_name(properties))
    assert of.name in architectures()
    assert of.block_shared_bytes == properties["shared_memory_per_block_optin"]
    assert of.shared_bytes == properties["shared_memory_per_multiprocessor"]
    assert (of.threads, of.registers, of.warp_size) == (
        properties["max_threads_per_multi_processor"], properties["regs_per_multiprocessor"], properties["warp_size"]
    )  # fmt: skip
