"""MXFP8 and NVFP4: references against values computed one by one, kernels in the interpreter and compiled.

No GPU that multiplies these formats was there: nothing here ran on one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.compilation.cross import compile_for
from kernelwright.evaluators.workers.modules import ProblemModule

PROGRAM = Path(__file__).with_name("block_scaled_forms.py")
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
NAMES = ("mxfp8", "nvfp4")


def module(name: str, **sizes: int) -> ProblemModule:
    return ProblemModule(Path(find_problem(f"gemm/{name}").read().path), sizes, "cpu")


def e2m1(code: int) -> float:
    return E2M1[code & 7] * (-1 if code & 8 else 1)


def test_mxfp8s_reference_by_single_values() -> None:
    problem = module("mxfp8", M=3, N=4, K=64)
    a, b, a_exponents, b_exponents = problem.inputs(0)
    result = problem.model(0)(a, b, a_exponents, b_exponents)
    for m in range(3):
        for n in range(4):
            expected = sum(
                float(a[m, k]) * 2.0 ** (int(a_exponents[m, k // 32]) - 127)
                * float(b[n, k]) * 2.0 ** (int(b_exponents[n, k // 32]) - 127)
                for k in range(64)
            )  # fmt: skip
            assert float(result[m, n]) == pytest.approx(expected, rel=2**-8, abs=1e-3)


def test_the_first_of_two_codes_in_a_byte_is_in_its_lower_half() -> None:
    """As in torch.float4_e2m1fn_x2."""
    scales = torch.ones(1, 1).to(torch.float8_e4m3fn)
    bytes_ = torch.tensor([[0x21, 0xF8] + [0] * 6], dtype=torch.uint8)
    values = module("nvfp4", M=3, N=4, K=32).module.dequantized(bytes_, scales)
    assert values.tolist() == [[0.5, 1.0, -0.0, -6.0] + [0.0] * 12]


def test_nvfp4s_reference_by_single_values() -> None:
    problem = module("nvfp4", M=3, N=4, K=32)
    a, b, a_scales, b_scales, alpha = problem.inputs(0)
    result = problem.model(0)(a, b, a_scales, b_scales, alpha)

    def value(packed: torch.Tensor, scales: torch.Tensor, row: int, k: int) -> float:
        byte = int(packed[row, k // 2])
        return e2m1(byte >> 4 if k % 2 else byte & 15) * float(scales[row, k // 16])

    for m in range(3):
        for n in range(4):
            expected = float(alpha) * sum(value(a, a_scales, m, k) * value(b, b_scales, n, k) for k in range(32))
            assert float(result[m, n]) == pytest.approx(expected, rel=2**-8, abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_results_are_of_the_order_of_one(name: str) -> None:
    problem = module(name, M=64, N=64, K=1024)
    assert 0.2 < float(problem.model(0)(*problem.inputs(0)).float().std()) < 5


def test_kernels_are_right_in_the_interpreter(tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=280, check=False, env=environment,
        cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    errors = json.loads(run.stdout)
    assert len(errors) == 4
    assert {form: error for form, error in errors.items() if error > 2**-8} == {}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("architecture", "instructions"),
    [
        ("sm_100", [("tcgen05 mxf8f6f4",), ("tcgen05 mxf4nvf4",)]),
        ("sm_120", [("mma mxf8f6f4",), ("mma mxf4nvf4",)]),
    ],
)
def test_kernels_compile_to_block_scaled_products(architecture: str, instructions: list[tuple[str, ...]]) -> None:
    config = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 64, "NUM_STAGES": 2}
    cases = [
        (find_problem(f"gemm/{name}").read(), find_kernel(f"gemm/{name}", "triton").read().bind(config))
        for name in NAMES
    ]
    found = [item.product() for item in compile_for(architecture, cases)]
    assert [item and item.tensor_cores for item in found] == instructions
    assert all(item is not None and item.spills == 0 for item in found)
