"""The products for AMD's compiler: aiter's space, and the rules by which tune_gemm prunes."""

from __future__ import annotations

import ast
import math
from typing import Any

import pytest
from kernelwright.commands.tune._gemm_compiled import device_of_architecture
from kernelwright.core import Config, PythonKernel
from kernelwright.core.devices import architecture
from kernelwright.corpus import find_kernel
from kernelwright.tuners.gemm.amd import AITER, amd_kernel
from kernelwright.tuners.gemm.analytic import first_configs, product_of, space_for
from kernelwright.tuners.gemm.fields import to_fields
from kernelwright.tuners.gemm.shapes import Shape

GEMM = {
    "BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1, "SPLIT_K": 1, "NUM_WARPS": 4,
    "NUM_STAGES": 2, "VARIANT": "plain", "WAVES_PER_EU": 0, "KPACK": 1, "MATRIX_INSTR_NONKDIM": 16,
}  # fmt: skip
LARGE = Shape(n=4096, k=8192, m=4096)
FEW_ROWS = Shape(n=4096, k=8192, m=16)


def kernel(product: str, of: str = "gfx942") -> PythonKernel:
    return amd_kernel(find_kernel(f"gemm/{product}", "triton").read(), product, architecture(of))


def space(product: str, shape: Shape, dtype: str = "float16", of: str = "gfx942") -> Any:
    chosen = kernel(product, of)
    width = 1 if dtype.startswith("float8") else 2
    return space_for(chosen, shape, product_of(shape, width, dtype, chosen), device_of_architecture(of).limits, {})


def test_aiters_search_space_is_that_of_its_guide() -> None:
    found = kernel("a8w8_blockscale").declared_values
    assert found == {
        "NUM_STAGES": [1, 2, 3, 4], "BLOCK_SIZE_M": [32, 64, 128], "BLOCK_SIZE_N": [32, 64, 128],
        "BLOCK_SIZE_K": [128], "GROUP_SIZE_M": [1, 8, 16], "NUM_WARPS": [2, 4, 8], "SPLIT_K": [1, 2, 4],
        "WAVES_PER_EU": [2, 4, 8], "KPACK": [2], "MATRIX_INSTR_NONKDIM": [16], "CACHE_MODIFIER": ["", ".cg"],
        "VARIANT": ["plain"],
    }  # fmt: skip
    # The loops of aiter's guide and of its script; the guide's text and its sample output say 3456.
    assert math.prod(map(len, AITER.values())) == 5832


@pytest.mark.parametrize(
    ("rule", "shape", "changes"),
    [
        ("a tile is no smaller than the instruction", LARGE, {"BLOCK_SIZE_N": 32, "MATRIX_INSTR_NONKDIM": 32}),
        ("parts and steps divide K", Shape(n=4096, k=8224, m=4096), {"BLOCK_SIZE_K": 32}),
        ("K is cut for few rows only", FEW_ROWS, {"BLOCK_SIZE_M": 16, "SPLIT_K": 4}),
        ("a group is no larger than M", LARGE, {"GROUP_SIZE_M": 8}),
        ("a group is no larger than M", Shape(n=4096, k=8192, m=512), {"GROUP_SIZE_M": 8}),
        ("long steps have no wide tiles", LARGE, {"BLOCK_SIZE_K": 128, "BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64}),
    ],
)
def test_what_tune_gemm_allows_is_a_member(rule: str, shape: Shape, changes: dict[str, int]) -> None:
    assert Config({**GEMM, **changes}) in space("gemm", shape), rule


@pytest.mark.parametrize(
    ("rule", "shape", "changes"),
    [
        ("a tile is no smaller than the instruction", FEW_ROWS, {"BLOCK_SIZE_M": 16, "MATRIX_INSTR_NONKDIM": 32}),
        ("parts and steps divide K", Shape(n=4096, k=8224, m=4096), {"BLOCK_SIZE_K": 64}),
        ("K is not cut where M and N are large", LARGE, {"SPLIT_K": 4}),
        ("K is not cut where it is short", Shape(n=4096, k=1024, m=16), {"BLOCK_SIZE_M": 16, "SPLIT_K": 4}),
        ("a group is no larger than M", Shape(n=4096, k=8192, m=511), {"GROUP_SIZE_M": 8}),
        ("long steps have no wide tiles", LARGE, {"BLOCK_SIZE_K": 128, "BLOCK_SIZE_M": 128}),
        ("long steps have no wide tiles", LARGE, {"BLOCK_SIZE_K": 128, "BLOCK_SIZE_N": 128}),
    ],
)
def test_what_tune_gemm_prunes_is_no_member(rule: str, shape: Shape, changes: dict[str, int]) -> None:
    assert Config({**GEMM, **changes}) not in space("gemm", shape), rule


def test_lds_is_the_architectures() -> None:
    wide = {**GEMM, "BLOCK_SIZE_M": 256, "BLOCK_SIZE_N": 128, "NUM_STAGES": 4, "NUM_WARPS": 8}
    assert Config(wide) not in space("gemm", LARGE, of="gfx942")
    assert Config({**wide, "KPACK": 1}) in space("gemm", LARGE, of="gfx950")


def test_options_are_those_that_an_architecture_takes() -> None:
    assert kernel("gemm", "gfx950").declared_values["KPACK"] == [1]
    assert kernel("gemm", "gfx1201").declared_values["MATRIX_INSTR_NONKDIM"] == [16]
    assert kernel("moe").declared_values["MATRIX_INSTR_NONKDIM"] == [0, 16, 32]


@pytest.mark.parametrize("product", ["gemm", "a8w8_blockscale", "moe"])
def test_launches_pass_the_options_to_the_compiler(product: str) -> None:
    chosen = kernel(product).bind({"WAVES_PER_EU": 2})
    passed: dict[str, str] = {}
    for node in ast.walk(ast.parse(chosen.source)):
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Name):
            passed[str(node.arg)] = node.value.id
        elif isinstance(node, ast.Dict):
            named = [
                (key, value) for key, value in zip(node.keys, node.values, strict=True) if isinstance(value, ast.Name)
            ]
            passed |= {str(key.value): value.id for key, value in named if isinstance(key, ast.Constant)}
    assert passed["num_stages"] == "NUM_STAGES"
    assert passed["waves_per_eu"] == "WAVES_PER_EU" and passed["kpack"] == "KPACK"
    assert passed["matrix_instr_nonkdim"] == "MATRIX_INSTR_NONKDIM"
    assert chosen.config["WAVES_PER_EU"] == 2


def test_loads_of_b_take_the_cache_modifier() -> None:
    source = kernel("a8w8_blockscale").source
    assert source.count("end, EVEN_K, CACHE_MODIFIER)") == 2 and source.count("cache_modifier=CACHE)") == 2


def test_estimates_know_the_architecture() -> None:
    chosen = kernel("gemm")
    limits = device_of_architecture("gfx942").limits
    product = product_of(LARGE, 2, "float16", chosen)
    configs = first_configs(space("gemm", LARGE), limits, product)
    assert all(int(item["BLOCK_SIZE_M"]) * int(item["BLOCK_SIZE_N"]) >= 128 * 128 for item in configs[:3])


def test_options_are_fields_of_engines_files() -> None:
    fields = to_fields(Config({**GEMM, "WAVES_PER_EU": 2}), split="SPLIT_K")
    assert (fields["waves_per_eu"], fields["kpack"], fields["matrix_instr_nonkdim"]) == (2, 1, 16)
