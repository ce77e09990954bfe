"""Kernels compiled for GPUs that are not here; tests/benchmarks/test_compile_matrix.py has all kernels."""

from __future__ import annotations

import pytest
from kernelwright.core import DeviceError, Kernel, TorchProblem
from kernelwright.core.devices import architecture
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.compilation.cross import CrossCompiled, compile_for
from kernelwright.evaluators.languages.base import CompiledKernel


def case(name: str, **constants: int) -> tuple[TorchProblem, Kernel]:
    problem = find_problem(name).read()
    return problem.resized(name, problem.workloads["tiny"]), find_kernel(name, "triton").read().bind(constants)


def test_products_and_rows_compile_for_amd() -> None:
    small = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 32, "NUM_WARPS": 4}
    cases = [case("gemm/gemm", **small), case("gemm/moe", **small), case("level1/1_23")]
    gemm, moe, softmax = compile_for("gfx942", cases)
    assert [item.error for item in (gemm, moe, softmax)] == ["", "", ""]
    (product,) = gemm.kernels
    assert (product.name, product.threads, product.tensor_cores) == ("gemm_kernel", 256, ("mfma f16",))
    assert 0 < product.registers <= architecture("gfx942").thread_registers and product.spills == 0
    assert 0 < (product.shared_bytes or 0) <= architecture("gfx942").block_shared_bytes
    experts = moe.product()
    assert experts is not None and (experts.name, experts.tensor_cores) == ("expert_kernel", ("mfma bf16",))
    assert len(moe.kernels) > 1, "sorting and sums have launches of their own"
    rows = softmax.product()
    assert rows is not None and rows.tensor_cores == ()


def test_blackwells_products_are_tcgen05() -> None:
    (gemm,) = compile_for("sm_100", [case("gemm/gemm", BLOCK_SIZE_M=128, BLOCK_SIZE_N=64, NUM_WARPS=4, NUM_STAGES=2)])
    product = gemm.product()
    assert product is not None and product.tensor_cores == ("tcgen05 f16",), gemm.error


def test_what_does_not_compile_says_why_and_others_go_on() -> None:
    problem, kernel = case("level1/1_23")
    broken = kernel.bind({}).source.replace("tl.max(", "tl.no_such_function(")
    assert broken != kernel.source
    first, second = compile_for("gfx1201", [(problem, type(kernel).parse(broken)), (problem, kernel)])
    assert not first.kernels and "no_such_function" in first.error
    assert second.kernels and not second.error


def test_an_unknown_architecture_starts_no_process() -> None:
    with pytest.raises(DeviceError, match="no architecture 'gfx000'"):
        list(compile_for("gfx000", [case("level1/1_23")]))


def test_the_launch_that_counts_has_matrix_instructions() -> None:
    rows = CompiledKernel("rows", 200, 0, 0, 256, ())
    product = CompiledKernel("product", 100, 0, 0, 256, ("mfma f16",))
    assert CrossCompiled((rows, product)).product() is product
    assert CrossCompiled((rows,)).product() is rows
    assert CrossCompiled((), "refused").product() is None
