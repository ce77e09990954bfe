"""Rates beside the copy bandwidth: the kernel that measures a load's latency, and on a GPU all of them."""

from __future__ import annotations

import pytest
from kernelwright.evaluators.languages.ptx import matrix_instructions
from kernelwright.evaluators.languages.tilelang_binaries import matrix_instructions as of_tilelang
from kernelwright.evaluators.profiling.memory_rates import memory_rates
from kernelwright.evaluators.timing.clock import Clock

PTX = """
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r1,%r2}, %rd1, %rd2, %p, 1, 1, 0, 1;
wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%r1,%r2}, %rd1, %rd2, %p, 1, 1;
wgmma.wait_group.sync.aligned 0;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %r13 }, { %r1 };
@%p7 tcgen05.mma.cta_group::1.kind::f16 [ %r164 + 0 ], %rd106, %rd107, %r22, %p6;
"""


def test_the_matrix_instructions_of_compiled_code() -> None:
    assert matrix_instructions(PTX) == ("mma f16", "tcgen05 f16", "wgmma bf16", "wgmma tf32")
    assert matrix_instructions("fma.rn.f32 %f1, %f2, %f3, %f4;\nld.global.b32 %r4, [%rd1];") == ()


def test_the_matrix_instructions_of_tilelangs_generated_code() -> None:
    source = """
extern "C" __global__ void one_kernel(const float* A);
extern "C" __global__ void __launch_bounds__(128, 1) one_kernel(const float* A) {
  tl::initialize_wgmma_descriptor<2, 1, 32>(desc_a, (&(a_lo[0])));
  tl::wgmma_ss<tl::DataType::kBFloat16, tl::DataType::kBFloat16, tl::DataType::kFloat32, 64, 64, 16>(a, b);
}
extern "C" __global__ void __launch_bounds__(128, 1) two_kernel(const float* A) {
  tl::mma_sync<tl::DataType::kTensorFloat32, tl::DataType::kTensorFloat32, tl::DataType::kFloat32, 16, 8, 8>(c);
}
extern "C" __global__ void three_kernel(const float* A) { A[0] = 1.0f; }
"""
    assert of_tilelang(source) == {"one_kernel": ("wgmma bf16",), "two_kernel": ("mma tf32",), "three_kernel": ()}


def test_every_step_of_the_chase_is_a_load_that_waits_for_the_one_before() -> None:
    from kernelwright.evaluators.profiling.pointer_chase import chase
    from triton import compile
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = {"chain": "*i32", "end": "*i32", "steps": "i32"}
    ptx = compile(ASTSource(fn=chase, signature=types, constexprs={}), target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert ptx.count("ld.global") == 2  # the first, and the loop's


@pytest.mark.gpu
def test_a_gpu_has_all_rates() -> None:
    rates = memory_rates(Clock("cuda"))
    assert all(value is not None for value in rates.values())
    assert 500 < rates["l2_gb_s"] < 100_000
    assert 0.5 < rates["launch_us"] < 100
    assert 100 < rates["latency_ns"] < 10_000
