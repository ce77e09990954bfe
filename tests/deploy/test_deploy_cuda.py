"""Deployed Triton kernels on a GPU: their own tests, and that Inductor sees their launches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelwright.corpus import find_kernel

from ..cli.commands import kernelwright
from .results import linear, own_tests, python, result

pytestmark = pytest.mark.gpu
SEEN = """
import torch, mylib_linear as deployed
from torch._inductor.utils import run_and_get_code

module = deployed.module("cuda")
x = torch.randn(32, 64, device="cuda")
compiled = torch.compile(lambda x: module(x) + 1, fullgraph=True)
_, codes = run_and_get_code(compiled, x)
print("linear_leaky_relu_kernel" in "".join(codes), "torch.ops.mylib" in "".join(codes))
"""
LAUNCHED_TWICE = """
import torch, mylib_linear as deployed
from mylib_linear import launch

module = deployed.module("cuda").requires_grad_(False)
first, second, third = (torch.randn(32, 64, device="cuda") for _ in range(3))
wide = torch.randn(32 * 64 + 1, device="cuda")[1:].view(32, 64)  # not at 16 bytes
expected = [torch.nn.functional.leaky_relu(module.gemm(x) * 2.0, 0.1) for x in (first, second, third, wide)]
outputs = [module(x) for x in (first, second, third, wide)]
torch.cuda.synchronize()
kept = [len(launcher._compiled) for launcher in launch._LAUNCHERS.values()]
planned = [item.plan is not None for item in deployed.OPERATOR._ready.__dict__.values()]
print([torch.allclose(*pair, atol=1e-4) for pair in zip(outputs, expected)], kept, planned, deployed.fallbacks())
"""

REPEATED = """
import torch, mylib_product as deployed

drawn = [[torch.randn(rows, 256, device="cuda").half() for rows in (192, 128)] for _ in range(4)]
pairs = [(a, b.t()) for a, b in drawn]
found = [torch.allclose(deployed.product(*pair), pair[0] @ pair[1], atol=0.1, rtol=1e-2) for pair in pairs]
planned = [item.plan is not None for item in deployed.OPERATOR._ready.__dict__.values()]
for item in deployed.benchmark(compiled=False): print(item)
print(found, planned, deployed.fallbacks())
"""


@pytest.fixture(scope="module")
def linear_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployed")
    path = linear(folder, "linear.py", "triton")
    run = kernelwright(
        *("deploy", path, "--name", "mylib::linear", "--output", "out", "--serve", "batch_size=1..64", "--json"),
        cwd=folder,
    )
    assert run.returncode == 0, run.stderr
    assert len(json.loads(run.stdout)["checks"]) == 5  # 32 and, of the range, 1, 33, 2 and 64
    return folder / "out"


def test_the_tests_of_a_package_pass_on_a_gpu(linear_package: Path) -> None:
    run = own_tests(linear_package)
    assert run.returncode == 0 and "8 passed" in run.stdout, run.stdout


def test_inductor_sees_the_launches(linear_package: Path) -> None:
    run = python(SEEN, linear_package)
    assert run.stdout.splitlines()[-1] == "True False", run.stderr


def test_a_second_launch_goes_to_the_compiled_kernel(linear_package: Path) -> None:
    run = python(LAUNCHED_TWICE, linear_package)
    assert run.stdout.splitlines()[-1] == "[True, True, True, True] [1] [True] {'strides': 1}", run.stderr


def test_times_are_there(linear_package: Path) -> None:
    program = (
        "import mylib_linear as deployed\n"
        "for item in deployed.benchmark(at=[{'batch_size': 32}, {'batch_size': 100}]): print(item)"
    )
    run = python(program, linear_package)
    lines = run.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["operator", "reference", "empty"] * 2, run.stderr
    assert all("in a CUDA graph" in line for line in lines)


@pytest.mark.parametrize("variant", ["plain", "tma", "tma_tile"])
def test_tuned_products_are_repeated_with_their_descriptors(tmp_path: Path, variant: str) -> None:
    kernel = find_kernel("gemm/gemm", "triton").read()
    tiles = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "NUM_WARPS": 4, "VARIANT": variant}
    sizes = {"M": 192, "N": 128, "K": 256, "DTYPE": "float16", "LAYOUT": "TN"}
    path = result(tmp_path / "product.py", kernel.bind(tiles).source, "gemm", workload="given", sizes=sizes)
    run = kernelwright("deploy", path, "--name", "mylib::product", "--output", "out", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    used = python(REPEATED, tmp_path / "out")
    assert used.stdout.splitlines()[-1] == "[True, True, True, True] [True] {}", used.stderr
