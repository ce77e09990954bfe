from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelwright.core import OptionError
from kernelwright.tuners.gemm.shapes import Shape, parse_shape
from kernelwright.tuners.gemm.sizes import Routing, read_sizes, tables

TUNED = (
    "- {'M': 16, 'N': 64, 'K': 128, 'rowMajorA': 'T', 'rowMajorB': 'T', 'BLOCK_SIZE_M': 16, 'BLOCK_SIZE_N': 32, "
    "'BLOCK_SIZE_K': 64, 'GROUP_SIZE_M': 1, 'SPLIT_K': 2, 'num_warps': 4, 'num_stages': 2, 'waves_per_eu': 0} "
    "# TFLOPS: 1.5 time(us): 3.2\n"
)


def written(tmp_path: Path, text: str, name: str = "sizes.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_sizes_of_the_seeds_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "- {'M': 4864, 'N': 4096, 'K': 8256, 'rowMajorA': 'T', 'rowMajorB': 'N'}\n" + TUNED)
    sizes = read_sizes(path)
    assert sizes.shapes == (Shape(4096, 8256, 4864, "TN"), Shape(64, 128, 16, "TT"))
    assert sizes.refused == ()
    assert dict(sizes.configs[sizes.shapes[1]])["SPLIT_K"] == 2
    assert sizes.shapes[0] not in sizes.configs


def test_tuples_of_batch_sizes_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps([[[16, 32], 1024, 512], [[16, 16], 64, 64]]), "sizes.json")
    expected = [Shape(1024, 512, 16), Shape(1024, 512, 32), Shape(64, 64, 16)]
    assert list(read_sizes(path).shapes) == expected
    assert tables([((16, 32), 1024, 512), (16, 64, 64)]) == expected


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("{'M': 0, 'N': 1, 'K': 1}", "M=0 is not a size"),
        ("{'M': 16, 'N': 1}", "K is missing"),
        ("{'M': 16, 'N': 1, 'K': 1, 'color': 3}", "unknown color"),
        ("{'M': 16, 'N': 1, 'K': 1, 'BLOCK_SIZE_M': 16}", "half a config, without BLOCK_SIZE_N"),
        (
            "{'M': 16, 'N': 1, 'K': 1, 'rowMajorA': 'X', 'rowMajorB': 'N'}",
            "rowMajorA='X' is not a layout; T is row-major",
        ),
        ("{M: 16, N: 1, K: 1, rowMajorA: true}", "rowMajorA=True is not a layout; T is row-major, N column-major"),
        ("{M: 16, N: 1, K: 1, rowMajorB: [T]}", "rowMajorB=['T'] is not a layout"),
        ("[16, 1]", "is not a size"),
        ("{'M': [], 'N': 1, 'K': 1}", "M=[] is not a size"),
        ("{'M': 16, 'N': 1, 'K': 1, 'E': 8}", "unknown E"),
    ],
)
def test_a_bad_entry_is_named_and_the_others_go_on(tmp_path: Path, entry: str, why: str) -> None:
    sizes = read_sizes(written(tmp_path, f"- {entry}\n{TUNED}"))
    assert len(sizes.shapes) == 1
    assert why in sizes.refused[0] and "entry 1" in sizes.refused[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "is not a list of sizes"), ("{", "not valid YAML"), ("- {M: -1, N: 1, K: 1}", "has no usable size")],
)
def test_a_useless_file_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        read_sizes(written(tmp_path, text))
    with pytest.raises(OptionError, match="cannot read"):
        read_sizes(tmp_path / "none.yaml")


def test_a_truth_value_is_no_size() -> None:
    with pytest.raises(OptionError, match="M=True"):
        parse_shape(True, 1, 1, "TN")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("{M: 16, N: 64, K: 64}", "E is missing; give them in the file, or as `experts` and `top_k`"),
        ("{M: 16, N: 64, K: 64, E: 4, TOP_K: 5}", "TOP_K=5 experts of E=4"),
        ("{M: 16, N: 64, K: 64, E: 0}", "E=0 is not a size"),
    ],
)
def test_sizes_of_experts_name_them_or_take_the_given_ones(tmp_path: Path, entry: str, why: str) -> None:
    path = written(
        tmp_path, f"- {entry}\n- {{M: [8, 16], N: 64, K: 32, E: 4}}\n- {{M: 1, N: 64, K: 32, E: 9, TOP_K: 1}}"
    )
    sizes = read_sizes(path, routing=Routing(top_k=2))
    assert [(shape.m, shape.experts, shape.top_k) for shape in sizes.shapes] == [(8, 4, 2), (16, 4, 2), (1, 9, 1)]
    assert sizes.shapes[0].flops == 8 * 2 * 3 * 2 * 64 * 32
    assert str(sizes.shapes[0]) == "M=8 N=64 K=32 E=4 TOP_K=2"
    assert why in sizes.refused[0]
    assert tables([(16, 64, 64)], routing=Routing(4, 2)) == [Shape(64, 64, 16, experts=4, top_k=2)]
