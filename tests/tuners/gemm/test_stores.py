"""The look-up rules of the engines, written anew from what they document, choose the same entries in our files."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Config, OptionError
from kernelwright.tuners.gemm.device import H200_LIMITS, Device
from kernelwright.tuners.gemm.fields import AMD, from_fields, to_fields
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.stores import names, store_of
from kernelwright.tuners.gemm.stores.stamp import FileStamp, read_stamp
from kernelwright.tuners.gemm.stores.store import ConfigEntry, ConfigKey

H200 = Device("NVIDIA H200", H200_LIMITS)
VERSIONS = {"triton": "3.6.0"}
MS = (1, 16, 32, 100, 512, 4096, 20000)


def config(number: int, **more: Any) -> Config:
    sizes = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": number}
    return Config({**sizes, "SPLIT_K": 1, "NUM_WARPS": 4, "NUM_STAGES": 3, "VARIANT": "plain", **more})


def subject(kernel: str = "a8w8_blockscale", dtype: str = "float8_e4m3fn") -> ConfigKey:
    return ConfigKey(kernel, dtype, H200)


def entries(ms: tuple[int, ...] = MS, n: int = 1024, k: int = 7168) -> list[ConfigEntry]:
    return [ConfigEntry(Shape(n, k, m), config(m), 1.0 + m) for m in ms]


# What the engines do, from their documentation and behaviour.


def vllm_choice(folder: Path, m: int, n: int, k: int, block_shape: str) -> Any:
    name = f"N={n},K={k},device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape={block_shape}.json"
    configs = {int(key): value for key, value in json.loads((folder / name).read_text()).items()}
    return configs[min(configs, key=lambda x: abs(x - m))]


def aiter_choice(folder: Path, m: int, n: int, k: int, tag: str) -> Any:
    default = folder / f"90-GEMM-{tag}.json"
    own = folder / f"90-GEMM-{tag}-N={n}-K={k}.json"
    assert default.exists()  # it insists on it
    found = json.loads((own if own.exists() else default).read_text())
    bounds = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
    for bound in bounds:
        if m <= bound and f"M_LEQ_{bound}" in found:
            return found[f"M_LEQ_{bound}"]
    for bound in reversed(bounds):
        if m >= bound and f"M_GEQ_{bound}" in found:
            return found[f"M_GEQ_{bound}"]
    return found["any"]


@pytest.mark.parametrize(("format", "block_shape"), [("vllm", "[128,128]"), ("sglang", "[128, 128]")])
def test_vllm_and_sglang_choose_what_we_do(tmp_path: Path, format: str, block_shape: str) -> None:
    store = store_of(format)
    (path,) = store.save(tmp_path, subject(), entries(), VERSIONS)
    assert path.name == f"N=1024,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape={block_shape}.json"
    for m in (1, 3, 17, 66, 67, 2304, 100000):
        chosen = vllm_choice(tmp_path, m, 1024, 7168, block_shape)
        found = store.find(tmp_path, subject(), Shape(1024, 7168, m))
        assert found is not None and found[0] == chosen
    assert set(chosen) == {
        *("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"),
    }
    assert store.find(tmp_path, subject(), Shape(1, 1, 1)) is None


def test_aiter_chooses_what_we_do(tmp_path: Path) -> None:
    store = store_of("aiter")
    store.save(tmp_path, subject(), entries(), VERSIONS)
    store.save(tmp_path, subject(), entries((64,), n=2048), VERSIONS)
    for n in (1024, 2048, 4096):
        for m in (1, 4, 5, 16, 17, 65, 128, 129, 600, 8192, 9000, 30000):
            found = store.find(tmp_path, subject(), Shape(n, 7168, m))
            assert found is not None and found[0] == aiter_choice(tmp_path, m, n, 7168, "A8W8_BLOCKSCALE"), (m, n)
    document = json.loads((tmp_path / "90-GEMM-A8W8_BLOCKSCALE-N=1024-K=7168.json").read_text())
    assert list(document) == [
        *("M_LEQ_1", "M_LEQ_16", "M_LEQ_32", "M_LEQ_128", "M_LEQ_512", "M_LEQ_4096", "M_GEQ_8192", "any"),
    ]
    assert document["any"]["GROUP_SIZE_M"] == 20000
    # Beside its kernel's own parameters nothing that NVIDIA's compiler refuses.
    assert set(document["any"]) - set(to_fields(config(1))) == {"NUM_KSPLIT", "cache_modifier"}
    # Its kernel insists on one block of scales per step.
    assert store.fixed(subject())["BLOCK_SIZE_K"] == [128]
    assert "BLOCK_SIZE_K" not in {**store.fixed(subject("gemm")), **store_of("kernelwright").fixed(subject())}


def test_a_check_without_a_gpu_writes_no_gpus_entries(tmp_path: Path) -> None:
    cpu = ConfigKey("a8w8_blockscale", "float8_e4m3fn", Device("cpu", H200_LIMITS))
    for format in ("aiter", "vllm", "sglang", "kernelwright"):
        for path in store_of(format).save(tmp_path, cpu, [ConfigEntry(Shape(64, 128, 16), config(1))], VERSIONS):
            assert re.search(r"\bcpu\b", path.name)


def test_the_guides_categories(tmp_path: Path) -> None:
    store = store_of("aiter-legacy")
    store.save(tmp_path, subject(), entries((16, 32, 64, 128, 256, 512, 2048, 4096)), VERSIONS)
    document = json.loads((tmp_path / "90-GEMM-A8W8_BLOCKSCALE-N=1024-K=7168.json").read_text())
    assert list(document) == ["small", "medium_M32", "medium_M64", "medium_M128", "large", "xlarge", "any"]
    assert document["any"] == document["xlarge"]
    assert {"NUM_KSPLIT", "waves_per_eu", "kpack", "matrix_instr_nonkdim", "cache_modifier"} <= set(document["any"])
    for m, key in ((1, "small"), (31, "small"), (33, "medium_M64"), (129, "large"), (257, "xlarge")):
        found = store.find(tmp_path, subject(), Shape(1024, 7168, m))
        assert found is not None and found[0] == document[key]


def test_a_category_gets_the_config_that_loses_least_over_its_shapes(tmp_path: Path) -> None:
    first, second, both = config(1), config(2), config(3)
    group = [
        ConfigEntry(Shape(64, 64, 512), first, 1.0, {second: 3.0, both: 1.1}),
        ConfigEntry(Shape(64, 64, 1000), second, 2.0, {first: 6.0, both: 2.1}),
    ]
    store_of("aiter-legacy").save(tmp_path, subject("gemm", "float16"), group, VERSIONS)
    document = json.loads((tmp_path / "90-GEMM-A16W16-N=64-K=64.json").read_text())
    assert document["xlarge"]["GROUP_SIZE_M"] == 3


def test_the_default_file_has_the_most_common_config(tmp_path: Path) -> None:
    store = store_of("kernelwright")
    for n, number in ((64, 1), (128, 2), (256, 1)):
        store.save(tmp_path, subject(), [ConfigEntry(Shape(n, 64, 16), config(number, VARIANT="tma"))], VERSIONS)
    found = store.find(tmp_path, subject(), Shape(512, 64, 16))
    assert found is not None and found[1].name == "NVIDIA_H200-GEMM-A8W8_BLOCKSCALE.json"
    assert from_fields(found[0]) == config(1, VARIANT="tma")


@pytest.mark.parametrize("format", ["tune-gemm", "triton-cache"])
def test_a_check_replaces_no_entry_with_a_time(tmp_path: Path, format: str) -> None:
    """The names of these files have no device."""
    store, about = store_of(format), subject("gemm", "float16")
    shape, target = Shape(64, 128, 16), tmp_path / "out.yaml" if format == "tune-gemm" else tmp_path
    for number, time in ((1, None), (2, 0.5), (3, None)):
        store.save(target, about, [ConfigEntry(shape, config(number), time)], VERSIONS)
    found = store.find(target, about, shape)
    assert found is not None and found[0]["GROUP_SIZE_M"] == 2
    store.save(target, about, [ConfigEntry(shape, config(4), 0.4)], VERSIONS)
    found = store.find(target, about, shape)
    assert found is not None and found[0]["GROUP_SIZE_M"] == 4


@pytest.mark.parametrize("format", names())
def test_no_other_shapes_entry_is_lost(tmp_path: Path, format: str) -> None:
    """Also where several runs write at once."""
    store = store_of(format)
    about = subject(store.kernels[0], "float16")
    target = tmp_path / "out.yaml" if format == "tune-gemm" else tmp_path
    ms = (16, 32, 64, 128, 256, 512)

    def write(m: int) -> None:
        store.save(target, about, [ConfigEntry(Shape(64, 128, m), config(m), 1.0)], VERSIONS)

    threads = [threading.Thread(target=write, args=(m,)) for m in ms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for m in ms:
        found = store.find(target, about, Shape(64, 128, m))
        assert found is not None and found[0]["GROUP_SIZE_M"] == m
        assert read_stamp(tmp_path)[found.path.name] == FileStamp(VERSIONS)


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("vllm", '{"any": {"BLOCK_SIZE_M": 16}}'),
        ("vllm", '{"16": {"BLOCK_SIZE_M": 16}}'),
        ("vllm", "[1]"),
        ("aiter", '{"16": {}}'),
        ("aiter", '{"any": {"BLOCK_SIZE_M": 16}}'),
        ("aiter-legacy", '{"M_LEQ_16": {}}'),
        ("kernelwright", "{"),
        ("tune-gemm", "- {M: 16, N: 64, K: 128}\n"),
        ("tune-gemm", "a: 1\n"),
    ],
)
def test_a_file_of_another_schema_is_left_alone(tmp_path: Path, format: str, content: str) -> None:
    store = store_of(format)
    about = subject(store.kernels[0], "float16")
    target = tmp_path / "out.yaml" if format == "tune-gemm" else tmp_path
    mine = [ConfigEntry(Shape(64, 128, 16), config(1), 1.0)]
    (path,) = store.grouped(target, about, mine)
    path.write_text(content)
    with pytest.raises(OptionError, match=path.stem.split("=")[0]):
        store.save(target, about, mine, VERSIONS)
    assert path.read_text() == content


def test_what_an_engine_does_not_have_is_said() -> None:
    with pytest.raises(OptionError, match="vllm holds no configs of gemm"):
        store_of("vllm").check(subject("gemm", "float16"))
    with pytest.raises(OptionError, match="layout"):
        store_of("aiter").check(ConfigKey("gemm", "float16", H200, "TT"))
    with pytest.raises(OptionError, match="not known"):
        store_of("yaml")
    with pytest.raises(OptionError, match="for Triton's kernels"):
        store_of("aiter").check(ConfigKey("gemm", "float16", H200, backend="tilelang"))


def test_a_target_that_cannot_be_written_is_named_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shapes = [Shape(64, 64, 16)]
    with pytest.raises(OptionError, match="cannot write to"):
        store_of("kernelwright").prepare(tmp_path / "file", subject(), shapes)
    with pytest.raises(OptionError, match=r"not a YAML file; name one, such as out\.yaml"):
        store_of("tune-gemm").prepare(tmp_path / "out.txt", subject("gemm", "float16"), shapes)


def test_fields_there_and_back() -> None:
    chosen = config(4, SPLIT_K=2)
    assert from_fields(to_fields(chosen, split="NUM_KSPLIT", more=AMD)) == chosen
    with pytest.raises(OptionError, match="num_warps='4'"):
        from_fields({**to_fields(chosen), "num_warps": "4"})
