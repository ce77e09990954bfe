"""vLLM's and SGLang's look-up of experts, written anew from their documents, finds the same entries in our files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Config
from kernelwright.tuners.gemm.device import H200_LIMITS, Device
from kernelwright.tuners.gemm.fields import from_fields
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.stores import store_of
from kernelwright.tuners.gemm.stores.stamp import STAMP, read_stamp
from kernelwright.tuners.gemm.stores.store import ConfigEntry, ConfigKey

H200 = Device("NVIDIA H200", H200_LIMITS)
VERSIONS = {"triton": "3.6.0"}


def config(number: int) -> Config:
    sizes = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": number}
    return Config({**sizes, "NUM_WARPS": 4, "NUM_STAGES": 3})


EXPERTS = ConfigKey("moe", "bfloat16", H200, triton="3.6.0")


def moe_entries(*ms: int) -> list[ConfigEntry]:
    return [ConfigEntry(Shape(14336, 4096, m, experts=8, top_k=2), config(m)) for m in ms]


def nearest_rows(found: dict[str, Any], m: int) -> Any:
    """Both engines: every key that is left is a number, the nearest one serves."""
    configs = {int(key): value for key, value in found.items()}
    return configs[min(configs, key=lambda x: abs(x - m))]


def without_version(path: Path) -> dict[str, Any]:
    """vLLM drops the key."""
    return {key: value for key, value in json.loads(path.read_text()).items() if key != "triton_version"}


def vllm_experts(folder: Path, m: int) -> Any:
    return nearest_rows(without_version(folder / "E=8,N=14336,device_name=NVIDIA_H200.json"), m)


def sglang_experts(folder: Path, m: int, triton: str, down: str = "") -> Any:
    versions = [triton, *(version for version in ("3.6.0", "3.5.1", "3.4.0") if version != triton)]
    for version in versions:
        where = folder / "configs" / f"triton_{version.replace('.', '_')}"
        path = where / f"E=8,N=14336,device_name=NVIDIA_H200{down}.json"
        if path.exists():
            return nearest_rows(json.loads(path.read_text()), m)
    return None


def test_vllm_has_one_name_for_the_family_of_the_h200(tmp_path: Path) -> None:
    relative = replace(EXPERTS, device=Device("NVIDIA H200 NVL", H200_LIMITS))
    (path,) = store_of("vllm").save(tmp_path, relative, moe_entries(16), VERSIONS)
    assert path.name == "E=8,N=14336,device_name=NVIDIA_H200.json"
    (single,) = store_of("vllm").grouped(tmp_path, replace(relative, kernel="a8w8_blockscale"), moe_entries(16))
    assert "device_name=NVIDIA_H200_NVL" in single.name
    assert all("H200_NVL" in file.name for file in store_of("sglang").grouped(tmp_path, relative, moe_entries(16)))


def test_vllm_reads_our_files_for_experts(tmp_path: Path) -> None:
    store = store_of("vllm")
    (path,) = store.save(tmp_path, EXPERTS, moe_entries(16), VERSIONS)
    store.save(tmp_path, EXPERTS, moe_entries(1, 512), VERSIONS)
    assert list(json.loads(path.read_text())) == ["triton_version", "1", "16", "512"]
    for m in (1, 8, 9, 264, 265, 9000):
        found = store.find(tmp_path, EXPERTS, Shape(14336, 4096, m, experts=8, top_k=2))
        assert found is not None and found[0] == vllm_experts(tmp_path, m)
    assert store.find(tmp_path, EXPERTS, Shape(14336, 4096, 1, experts=16, top_k=2)) is None


def test_entries_keep_the_versions_that_they_were_measured_with(tmp_path: Path) -> None:
    """A file of vLLM names one version, here of a run without kernelwright; what is measured again has the new one."""
    store, path = store_of("vllm"), tmp_path / "E=8,N=14336,device_name=NVIDIA_H200.json"
    fields = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
    tuned = {**fields, "num_warps": 4, "num_stages": 2}
    path.write_text(json.dumps({"triton_version": "3.5.1", "16": tuned, "32": tuned, "64": tuned}))
    store.save(tmp_path, EXPERTS, moe_entries(32), VERSIONS)
    stamp = read_stamp(tmp_path)[path.name]
    assert [stamp.of(key)["triton"] for key in ("16", "32", "64")] == ["3.5.1", "3.6.0", "3.5.1"]
    assert stamp.others("triton") == {"3.5.1": ["16", "64"]}
    store.save(tmp_path, replace(EXPERTS, triton="3.9.0"), moe_entries(16), {"triton": "3.9.0"})
    stamp = read_stamp(tmp_path)[path.name]
    assert stamp.others("triton") == {"3.6.0": ["32"], "3.5.1": ["64"]}
    assert json.loads(path.read_text())["triton_version"] == "3.9.0"
    store.save(tmp_path, EXPERTS, moe_entries(16, 32, 64), VERSIONS)
    assert read_stamp(tmp_path)[path.name].others("triton") == {}


def test_entries_of_an_unknown_version_are_told_from_ours(tmp_path: Path) -> None:
    store = store_of("vllm")
    (path,) = store.save(tmp_path, EXPERTS, moe_entries(16), VERSIONS)
    (tmp_path / STAMP).unlink()
    path.write_text(path.read_text().replace('"triton_version": "3.6.0",', ""))
    store.save(tmp_path, EXPERTS, moe_entries(32), VERSIONS)
    assert read_stamp(tmp_path)[path.name].others("triton") == {"": ["16"]}


def test_sglang_reads_our_files_for_experts_of_another_version_too(tmp_path: Path) -> None:
    store = store_of("sglang")
    older = replace(EXPERTS, triton="3.4.0")
    files = store.save(tmp_path, EXPERTS, moe_entries(16, 512), VERSIONS)
    assert [path.name.removeprefix("E=8,N=14336,device_name=NVIDIA_H200") for path in files] == [".json", "_down.json"]
    store.save(tmp_path, older, moe_entries(64), VERSIONS)
    for triton in ("3.6.0", "3.4.0", "3.9.0"):
        for m in (1, 100, 600):
            asked = Shape(14336, 4096, m, experts=8, top_k=2)
            found = store.find(tmp_path, replace(EXPERTS, triton=triton), asked)
            assert found is not None and found[0] == sglang_experts(tmp_path, m, triton)
            assert found[0] == sglang_experts(tmp_path, m, triton, "_down")
    # The second product's own entries of other M stay.
    tuned = {**json.loads(files[1].read_text()), "7": {**found[0], "num_stages": 5}}
    files[1].write_text(json.dumps(tuned))
    store.save(tmp_path, EXPERTS, moe_entries(16), VERSIONS)
    assert json.loads(files[1].read_text())["7"] == tuned["7"]


@pytest.mark.parametrize(
    ("engine", "folder", "shape"), [("vllm", ".", "[128,128]"), ("sglang", "configs/triton_3_6_0", "[128, 128]")]
)
def test_engines_find_fp8_experts_by_their_block_shape(tmp_path: Path, engine: str, folder: str, shape: str) -> None:
    store, fp8 = store_of(engine), replace(EXPERTS, dtype="float8_e4m3fn")
    store.save(tmp_path, EXPERTS, moe_entries(16), VERSIONS)
    store.save(tmp_path, fp8, moe_entries(64), VERSIONS)
    name = f"E=8,N=14336,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape={shape}.json"
    assert nearest_rows(without_version(tmp_path / folder / name), 1)["GROUP_SIZE_M"] == 64
    asked = Shape(14336, 4096, 16, experts=8, top_k=2)
    for subject, tuned in ((EXPERTS, 16), (fp8, 64)):
        found = store.find(tmp_path, subject, asked)
        assert found is not None and found[0]["GROUP_SIZE_M"] == tuned


def test_own_files_know_experts_and_languages(tmp_path: Path) -> None:
    store, asked = store_of("kernelwright"), Shape(14336, 4096, 16, experts=8, top_k=2)
    (path, _) = store.save(tmp_path, EXPERTS, moe_entries(16), VERSIONS)
    assert path.name == "NVIDIA_H200-GEMM-MOE_BFLOAT16-N=14336-K=4096-E=8-TOP_K=2.json"
    assert store.find(tmp_path, EXPERTS, asked) is not None
    tilelang = ConfigKey("gemm", "float16", H200, backend="tilelang")
    chosen = Config({**config(8), "SPLIT_K": 2, "POLICY": "FullRow"})
    store.save(tmp_path, tilelang, [ConfigEntry(Shape(64, 64, 16), chosen)], VERSIONS)
    found = store.find(tmp_path, tilelang, Shape(64, 64, 16))
    assert found is not None and from_fields(found[0]) == Config({**chosen, "VARIANT": "plain"})
    assert store.find(tmp_path, ConfigKey("gemm", "float16", H200), Shape(64, 64, 16)) is None
