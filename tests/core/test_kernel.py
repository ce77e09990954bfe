from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernelwright.core import KernelError, Language, PythonKernel, SpaceError, Target
from kernelwright.core.languages import TILELANG, TRITON
from kernelwright.core.space_inference import declared_space

SOURCE = '''"""Ein Kernel: für alle Größen."""
import triton

BLOCK_M = 32
ÄRGER = 'ü'; BLOCK_N = 64
TUPLE = (
    1,
    2,
)
RATE: float = 0.5
lower = 1

SEARCH_SPACE = {"BLOCK_M": [16, 32], "BLOCK_N": [64]}
CONSTRAINTS = ["BLOCK_M <= BLOCK_N"]


class ModelNew:
    BLOCK_M = 7
'''


def test_constants_are_the_upper_case_literals_of_the_module() -> None:
    kernel = PythonKernel.parse(SOURCE)
    assert kernel.constants == {"BLOCK_M": 32, "ÄRGER": "ü", "BLOCK_N": 64, "TUPLE": (1, 2), "RATE": 0.5}
    assert set(kernel.config) == {"BLOCK_M", "ÄRGER", "BLOCK_N", "RATE"}
    assert (kernel.language, kernel.target) == (TRITON, Target.CUDA)


@given(
    st.integers(-99, 99),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.integers(0, 9),
    st.floats(0, 1),
)
def test_bind_changes_these_constants_and_nothing_else(m: int, text: str, tup: int, rate: float) -> None:
    kernel = PythonKernel.parse(SOURCE)
    config = {"BLOCK_M": m, "ÄRGER": text, "TUPLE": tup, "RATE": rate}
    bound = kernel.bind(config)
    assert bound.constants == {**kernel.constants, **config}
    assert "class ModelNew:\n    BLOCK_M = 7" in bound.source
    assert bound.bind(kernel.constants).source.replace("(1, 2)", "") == SOURCE.replace("(\n    1,\n    2,\n)", "")
    ast.parse(bound.source)


@pytest.mark.parametrize(
    ("line", "value", "bound"),
    [
        ("BLOCK = 1 << 6", 64, "BLOCK = 9"),
        ("BLOCK = 2 * 32  # a tile", 64, "BLOCK = 9  # a tile"),
        ("BLOCK = tl.constexpr(64)", 64, "BLOCK = tl.constexpr(9)"),
        ("BLOCK: tl.constexpr = 64", 64, "BLOCK: tl.constexpr = 9"),
        ("BLOCK, OTHER = 8, 16", 8, "BLOCK, OTHER = 9, 16"),
        ("(OTHER, BLOCK) = (\n    16,\n    8,\n)", 8, "(OTHER, BLOCK) = (\n    16,\n    9,\n)"),
        ("BLOCK = -(2**3)", None, ""),
        ("BLOCK = 1 << 99", None, ""),
        ("BLOCK = 1 // 0", None, ""),
        ("BLOCK = min(64, 128)", None, ""),
        ("BLOCK = OTHER = 64", None, ""),
        ("BLOCK, *OTHER = 1, 2", None, ""),
        ("BLOCK, OTHER = sizes()", None, ""),
    ],
)
def test_ways_to_write_a_constant(line: str, value: int | None, bound: str) -> None:
    """What is more than arithmetic of numbers is computed, and its text says how."""
    kernel = PythonKernel.parse(f"import triton\n{line}\n\n\nclass ModelNew: ...\n")
    assert kernel.config.get("BLOCK") == value
    if value is None:
        assert set(kernel.computed) <= {"BLOCK"}
    else:
        assert kernel.bind({"BLOCK": 9}).source == f"import triton\n{bound}\n\n\nclass ModelNew: ...\n"
        assert not kernel.computed


def test_the_digest_follows_the_source() -> None:
    kernel = PythonKernel.parse(SOURCE)
    assert kernel.digest == PythonKernel.parse(SOURCE).digest
    assert kernel.digest != kernel.bind({"BLOCK_M": 16}).digest


def test_declared_space_has_the_present_values_as_defaults() -> None:
    space = declared_space(PythonKernel.parse(SOURCE))
    assert space is not None
    assert dict(space.default) == {"BLOCK_M": 32, "BLOCK_N": 64}
    assert space.constraints == ("BLOCK_M <= BLOCK_N",)


def test_what_is_declared_comes_as_it_stands() -> None:
    """A space is made of it later, by who knows what else is wanted."""
    kernel = PythonKernel.parse(SOURCE.replace("[16, 32]", "[16, 16]"))
    assert kernel.declared_values == {"BLOCK_M": [16, 16], "BLOCK_N": [64]}
    assert kernel.declared_constraints == ("BLOCK_M <= BLOCK_N",)
    bare = PythonKernel.parse("import triton\nclass ModelNew: ...\n")
    assert (bare.declared_values, bare.declared_constraints, declared_space(bare)) == ({}, (), None)


def test_the_first_value_is_the_default_where_the_present_one_is_not_declared() -> None:
    space = declared_space(PythonKernel.parse(SOURCE.replace("[16, 32]", "[16, 64]")))
    assert space is not None
    assert dict(space.default) == {"BLOCK_M": 16, "BLOCK_N": 64}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def broken(:\n", "not valid Python"),
        ("import triton\nclass Model: ...\n", "no class ModelNew"),
        ("import torch\nclass ModelNew: ...\n", "neither tilelang nor triton"),
    ],
)
def test_what_is_no_kernel_is_refused(source: str, says: str) -> None:
    with pytest.raises(KernelError, match=says):
        PythonKernel.parse(source, "k.py")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(KernelError, match="no constant NOPE"):
        PythonKernel.parse(SOURCE).bind({"NOPE": 1})
    with pytest.raises(SpaceError, match="not constants of it"):
        _ = declared_space(PythonKernel.parse(SOURCE.replace('"BLOCK_N": [64]', '"OTHER": [64]')))
    with pytest.raises(SpaceError, match="names TUPLE, which are not constants of it that can be set"):
        _ = declared_space(PythonKernel.parse(SOURCE.replace('"BLOCK_N": [64]', '"TUPLE": [64]')))


@pytest.mark.parametrize(
    ("imports", "language", "target"),
    [
        ("import tilelang.cpu.language as T", TILELANG, Target.CPU),
        ("from tilelang.cpu import language as T", TILELANG, Target.CPU),
        ("import tilelang.language as T", TILELANG, Target.CUDA),
        ("import triton.language as tl", TRITON, Target.CUDA),
    ],
)
def test_language_and_target_follow_the_imports(imports: str, language: Language, target: Target) -> None:
    kernel = PythonKernel.parse(f"{imports}\nclass ModelNew: ...\n")
    assert (kernel.language, kernel.target) == (language, target)


@pytest.mark.parametrize(
    "space", ['["BLOCK"]', '{"BLOCK": 8}', '{"BLOCK": [[8]]}', "dict(BLOCK=[1])", "{[]: [1]}", "{1: [1]}"]
)
def test_a_space_of_another_form_is_refused(space: str) -> None:
    source = f"import triton\nBLOCK = 8\nSEARCH_SPACE = {space}\nclass ModelNew: ...\n"
    with pytest.raises(SpaceError, match="SEARCH_SPACE"):
        _ = PythonKernel.parse(source).declared_values


@pytest.mark.parametrize("constraints", ['"BLOCK > 1"', "[1]", "[open]"])
def test_constraints_of_another_form_are_refused(constraints: str) -> None:
    source = f"import triton\nBLOCK = 8\nCONSTRAINTS = {constraints}\nclass ModelNew: ...\n"
    with pytest.raises(SpaceError, match="CONSTRAINTS must be a li"):
        _ = PythonKernel.parse(source).declared_constraints


def test_a_byte_order_mark_is_left_out() -> None:
    assert PythonKernel.parse(f"\ufeff{SOURCE}") == PythonKernel.parse(SOURCE)


def test_a_sum_of_too_many_terms_is_one_clear_error() -> None:
    with pytest.raises(KernelError, match=r"^kernel has an expression that is nested too deeply .* loop$"):
        PythonKernel.parse(SOURCE + f"\nTOTAL = {' + '.join('1' * 20_000)}\n")
