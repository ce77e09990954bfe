"""The shipped matrix products: every layout, dtype and form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Config, Status
from kernelwright.core.space_inference import declared_space
from kernelwright.corpus import find_kernel, find_problem, list_gemms
from kernelwright.evaluators.local import LocalEvaluator

PROGRAM = Path(__file__).with_name("gemm_forms.py")


def forms(how: str) -> dict[str, Any]:
    environment = {**os.environ, "TRITON_INTERPRET": str(int(how == "interpreted"))}
    command = [sys.executable, str(PROGRAM), how]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_products_are_found_by_their_names() -> None:
    assert list_gemms() == ["gemm/a8w8_blockscale", "gemm/gemm"]
    for name in list_gemms():
        file = find_kernel(name, "triton")
        assert file.problem == name
        assert find_kernel(str(file.path), "triton").problem == name
        assert find_problem(name).read().workloads["tiny"]


@pytest.mark.parametrize("name", list_gemms())
def test_spaces_hold_the_constants_and_the_forms(name: str) -> None:
    kernel = find_kernel(name, "triton").read()
    space = declared_space(kernel, find_problem(name).read())
    assert space is not None
    assert space.default == Config({name: kernel.config[name] for name in space.names})
    assert Config({**space.default, "VARIANT": "tma"}) in space
    assert Config({**space.default, "VARIANT": "tma", "SPLIT_K": 2}) not in space


def test_every_form_is_right_in_the_interpreter() -> None:
    errors = forms("interpreted")
    assert len(errors) == 4 * 4 + 4 * 2
    # At most the next number in bf16.
    assert {form: error for form, error in errors.items() if error > 2**-7} == {}


def test_every_form_compiles_to_matrix_instructions_of_sm_90() -> None:
    found = forms("compiled")
    assert len(found) == 3 * 3
    for form, (shared, matrix, bulk) in found.items():
        assert 0 < shared <= 227 * 1024
        assert matrix, form
        assert bulk == ("'tma'" in form), form


@pytest.fixture(scope="module")
def gpu() -> Iterator[LocalEvaluator]:
    with LocalEvaluator("cuda") as evaluator:
        yield evaluator


@pytest.mark.gpu
@pytest.mark.parametrize("form", [("plain", 1), ("plain", 2), ("persistent", 1), ("tma", 1)])
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *(("gemm", {"DTYPE": dtype, "LAYOUT": "TN"}) for dtype in ("float16", "bfloat16", "float8_e4m3fn")),
        *(("gemm", {"DTYPE": "float16", "LAYOUT": layout}) for layout in ("TT", "NT", "NN")),
        ("a8w8_blockscale", {}),
    ],
)
def test_every_form_is_right_on_a_gpu(
    gpu: LocalEvaluator, name: str, sizes: dict[str, str], form: tuple[str, int]
) -> None:
    kernel = find_kernel(f"gemm/{name}", "triton").read()
    problem = find_problem(f"gemm/{name}").read().resized("test", {"M": 272, "N": 528, "K": 1040, **sizes})
    config = Config({"VARIANT": form[0], "SPLIT_K": form[1], "BLOCK_SIZE_M": 64})
    (found,) = gpu.evaluate(problem, kernel, [config])
    assert found.status is Status.OK, found.message + found.log
