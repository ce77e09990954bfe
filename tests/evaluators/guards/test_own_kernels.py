"""The candidate's kernels are counted when they run, and distinguished from a library's by their names."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from kernelwright.core import DeviceKernel, KernelProfile
from kernelwright.corpus import find_kernel
from kernelwright.evaluators.guards.own_kernels import (
    LaunchCounter,
    is_own,
    own_names,
    proof_violation,
    python_violation,
)
from kernelwright.evaluators.guards.torch_share import Operator, operators_of, torch_violation
from kernelwright.evaluators.languages.base import supports
from kernelwright.evaluators.settings import AllowTorch

X, Y = torch.randn(64, 64), torch.randn(64, 64)

SOURCE = '''
"""@triton.jit def not_this_one(): pass"""
import tilelang, tilelang.language as T, triton
from triton import jit as compiled

@triton.autotune(configs=[], key=[])
@triton.jit
def scale_kernel(x): pass

@triton.jit(do_not_specialize=["n"])
def add(x, n): pass

@tilelang.jit(out_idx=[-1])
def build(M):
    @T.prim_func
    def main(A): pass
    return main.with_attr("global_symbol", "renamed")

@triton.jit
def nvjet_hsh_128x256_64x4(x): pass

@staticmethod
def helper(x): pass
'''


@pytest.fixture(scope="module")
def double() -> Any:
    """A compiled TileLang kernel."""
    import tilelang
    import tilelang.cpu.language as T  # noqa: N812  (as everybody calls it)

    @T.prim_func
    def double(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(64) as i:
            for j in T.serial(64):
                B[i, j] = A[i, j] * 2.0

    return tilelang.compile(double, out_idx=[-1], target="c")


def test_each_launch_counts_wherever_it_is_made(double: Any) -> None:
    direct = double.torch_function
    with LaunchCounter("cpu") as counter, ThreadPoolExecutor(2) as pool:
        double(X)
        double.torch_function(X)
        list(pool.map(double, [X, X, X]))
    assert counter.counts == {"double": 5}
    assert double.torch_function is direct, "outside nothing is replaced"
    double(X)
    assert counter.counts["double"] == 5
    with counter:
        double(X)
    assert counter.counts == {"double": 1}, "each call is counted by itself"


def test_time_in_kernels_is_distinguished_from_time_beside_them(double: Any) -> None:
    with LaunchCounter("cpu") as counter:
        double(X)
        time.sleep(0.06)
    assert counter.own_ms is not None and 0 < counter.own_ms < 30 < 60 <= counter.call_ms
    assert python_violation(counter.call_ms, counter.own_ms, AllowTorch.ALL) is None
    found = python_violation(counter.call_ms, counter.own_ms, AllowTorch.GLUE)
    assert found is not None and found.rule == "no-own-kernel"
    assert python_violation(1.0, 0.02, AllowTorch.GLUE) is None, "short calls are mostly Python"
    assert python_violation(20.0, 14.0, AllowTorch.GLUE) is None


def test_a_kernel_for_show_is_caught_by_what_torch_does(double: Any) -> None:
    def call() -> torch.Tensor:
        double(X)
        return X @ Y

    with LaunchCounter("cpu") as counter:
        call()
    assert proof_violation(None, counter.counts, AllowTorch.GLUE) is None
    operators, reference = ([Operator(**row) for row in operators_of(c)] for c in (call, lambda: X @ Y))
    assert torch_violation(operators, reference, AllowTorch.GLUE) is not None
    assert torch_violation([], reference, AllowTorch.GLUE) is None


def test_without_a_launch_there_is_no_kernel() -> None:
    with LaunchCounter("cpu") as counter:
        _ = X @ Y
    found = proof_violation(None, counter.counts, AllowTorch.GLUE)
    assert found is not None and found.rule == "no-own-kernel"
    assert proof_violation(None, {}, AllowTorch.ALL) is None


def test_names_are_those_of_decorated_functions() -> None:
    assert own_names(SOURCE) == {"scale_kernel", "add", "main", "build", "renamed"}
    assert own_names("def broken(:") == set()
    assert own_names(find_kernel("2_10", "tilelang").read().source)


@pytest.mark.parametrize(
    "name", ["scale_kernel", "add", "main_kernel", "main_kernel_1", "main_kernel_12", "renamed_kernel"]
)
def test_own_kernels_are_found_in_the_profile(name: str) -> None:
    assert is_own(name, own_names(SOURCE), supports())


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
        "void add<float>(float*)",
        "add_kernel_cuda",
        "_Z3addPf",
        "main_kernel_x",
        "nvjet_hsh_128x256_64x4",
        "triton_poi_fused_add_0",
        "Memset (Device)",
    ],
)
def test_a_library_is_not_taken_for_it(name: str) -> None:
    assert not is_own(name, own_names(SOURCE) | {"nvjet_hsh_128x256_64x4", "triton_poi_fused_add_0"}, supports())


def profile(**times: float) -> KernelProfile:
    names = {
        "fill": "void at::native::elementwise_kernel<FillFunctor<float>>",
        "copy": "Memcpy DtoD (Device -> Device)",
    }
    kernels = [
        DeviceKernel(name=names.get(name, name), launches=1, time_ms=ms, own=name == "own")
        for name, ms in times.items()
    ]
    return KernelProfile(kernels=tuple(kernels))


@pytest.mark.parametrize(
    ("ran", "glue", "none"),
    [
        (profile(own=1.0), None, None),
        (profile(own=1.0, fill=9.0, copy=9.0), None, None),
        (profile(own=1.0, library=0.9), None, "library-share"),
        (profile(own=1.0, library=1.1), "library-share", "library-share"),
        (profile(library=1.0), "no-own-kernel", "no-own-kernel"),
        (profile(), "no-own-kernel", "no-own-kernel"),
        (profile(own=0.0), "no-own-kernel", "no-own-kernel"),
    ],
)  # fmt: skip
def test_the_profiler_has_the_last_word(ran: KernelProfile, glue: str | None, none: str | None) -> None:
    for allow, rule in ((AllowTorch.GLUE, glue), (AllowTorch.NONE, none), (AllowTorch.ALL, None)):
        found = proof_violation(ran, {"own": 1}, allow)
        assert (found.rule if found else None) == rule


@pytest.mark.gpu
def test_triton_launches_count_on_a_gpu() -> None:
    from kernelwright.evaluators.workers.modules import load

    kernel = find_kernel("1_19", "triton")
    model = load("kernelwright_counted", kernel.path).ModelNew().cuda()
    x = torch.randn(64, 64, device="cuda")
    model(x)
    with LaunchCounter("cuda") as counter:
        model(x)
    assert counter.counts == {"relu_kernel": 1} and counter.own_ms is None
