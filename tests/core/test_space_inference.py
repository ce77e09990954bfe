"""Which constants are parameters, and which sizes constraints may name."""

from __future__ import annotations

import pytest
from kernelwright.core import MatrixProduct, PythonKernel, TorchProblem
from kernelwright.core.space_inference import LARGEST, declared_space, named_sizes, suggest

from ..fakes import PROFILE

PROBLEM = TorchProblem(
    "level1/1_1", "1_P", "K = 7\nbatch = 4\nclass Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ..."
)
PRODUCT = PROFILE.model_copy(update={"product": MatrixProduct(m=64, n=32, k=16, element_bytes=4)})


@pytest.mark.parametrize(
    ("constants", "values"),
    [
        ({"BLOCK_M": 64}, {"BLOCK_M": [8, 16, 32, 64, 128, 256, 512]}),
        ({"TILE": 2}, {"TILE": [1, 2, 4, 8, 16]}),
        ({"BK": LARGEST}, {"BK": [1024, 2048, 4096, 8192]}),
        ({"NUM_STAGES": 3}, {"NUM_STAGES": [1, 2, 3, 4, 5]}),
        ({"num_warps": 32}, {"num_warps": [1, 2, 4, 8, 16, 32]}),
        ({"GROUP_M": 6}, {"GROUP_M": [1, 2, 4, 6, 8, 16]}),
        ({"BLOCK": 48, "THREADS": True, "UNROLL": 0, "TILE": -4, "SPLIT": 2.0, "VEC": "4", "EPS": 8}, {}),
        ({"HIDDEN": 1024, "EPS": 8, "M": 64}, {}),
        ({"BLOCK": 4 * LARGEST}, {"BLOCK": [4096, 8192, 4 * LARGEST]}),
    ],
)
def test_suggestions(constants: dict[str, int | float | str | bool], values: dict[str, list[int]]) -> None:
    assert suggest(constants) == values


def test_sizes_are_the_problems_constants_and_the_products_extents() -> None:
    assert named_sizes(PROBLEM) == {"K": 7, "batch": 4}
    assert named_sizes(PROBLEM, PROFILE) == {"K": 7, "batch": 4}
    assert named_sizes(PROBLEM, PRODUCT) == {"M": 64, "N": 32, "K": 7, "batch": 4}, "the file's own name goes first"
    assert named_sizes(PROBLEM.at("batch=2"))["batch"] == 2


def test_a_declared_constraint_may_name_an_extent() -> None:
    source = """
import triton
BLOCK_M = 32
SEARCH_SPACE = {"BLOCK_M": [16, 32, 64, 128]}
CONSTRAINTS = ["BLOCK_M <= M", "BLOCK_M > batch * K"]
class ModelNew: ...
"""
    kernel = PythonKernel.parse(source)
    before, after = declared_space(kernel, PROBLEM), declared_space(kernel, PROBLEM, PRODUCT)
    assert before is not None and [config["BLOCK_M"] for config in before] == [32, 64, 128]
    assert after is not None and [config["BLOCK_M"] for config in after] == [32, 64]
