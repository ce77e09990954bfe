"""TileLang's lowered IR survives JSON, and the code that is generated from it is what kernels need, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from kernelwright.core.launch_plan import KernelCode
from kernelwright.evaluators.replay.tir.gpu import _passes, require_device_code
from kernelwright.evaluators.replay.values import UnplannableCallError

TARGET = {"kind": "cuda", "arch": "sm_90a"}


def code(**settings: Any) -> KernelCode:
    flags = settings.pop("flags", ())
    return KernelCode(
        name="product", kind="tir", text="{}", entry="product", parameters=(), flags=flags, settings=settings
    )


def product() -> Any:
    """A product on tensor cores, with copies by TMA and an annotated layout."""
    import tilelang.language as T  # noqa: N812
    from tilelang.layout import make_swizzled_layout

    @T.prim_func
    def product(
        A: T.Tensor((256, 256), "bfloat16"), B: T.Tensor((256, 256), "bfloat16"), C: T.Tensor((256, 256), "float32")
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            A_shared = T.alloc_shared((128, 64), "bfloat16")
            B_shared = T.alloc_shared((64, 128), "bfloat16")
            C_local = T.alloc_fragment((128, 128), "float32")
            T.annotate_layout({A_shared: make_swizzled_layout(A_shared)})
            T.clear(C_local)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[by * 128, k * 64], A_shared)
                T.copy(B[k * 64, bx * 128], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 128, bx * 128])

    return product


@pytest.fixture(scope="module")
def generated() -> tuple[str, str]:
    """CUDA before and after JSON."""
    from tilelang import tvm
    from tilelang.backend.module import create_backend_context
    from tilelang.engine.lower import device_codegen_without_compile, lower_to_host_device_ir

    with tvm.transform.PassContext(opt_level=3), tvm.target.Target(TARGET):
        context = create_backend_context(TARGET, None, "auto")
        _, device, *_ = lower_to_host_device_ir(product(), context)
        before = device_codegen_without_compile(device, context).inspect_source()
        device = tvm.ir.load_json(tvm.ir.save_json(device))
        return before, device_codegen_without_compile(device, context).inspect_source()


def test_ir_survives_json(generated: tuple[str, str]) -> None:
    before, after = generated
    assert after == before and "product_kernel" in after


def test_what_tilelang_generates_is_allowed(generated: tuple[str, str]) -> None:
    require_device_code(code(), generated[1])


@pytest.mark.parametrize(
    "added",
    [
        "__device__ float kept[4];",
        "static int calls;",
        '#include "/tmp/secret.h"',
        "#include <cstdlib>",
        "#define float double",
        'asm volatile ("nanosleep.u32 100;");',
        'printf("a");',
        "using namespace cute;",
        'extern "C" { const char* text = "a"; }',
        "/**/#include <cutlass/gemm/device/gemm.h>",
        "%:include <cutlass/gemm/device/gemm.h>",
        "TL_DEVICE int kept;",
        "int kept;",
        "// \\\nint kept;",
    ],
)
def test_what_kernels_have_no_use_for_is_refused(generated: tuple[str, str], added: str) -> None:
    with pytest.raises(UnplannableCallError, match="generated CUDA with"):
        require_device_code(code(), f"{generated[1]}\n{added}\n")


@pytest.mark.parametrize(
    "code_in_a_name",
    [
        """'/*'; asm volatile("exit;"); int q = '*/'; fabsf""",
        "0; __attribute__((device)) static int calls; fabsf",
        "0; other_kernel<<<1, 1>>>(A); fabsf",
        "0; extern int calls; fabsf",
    ],
)
def test_code_in_the_name_of_a_function_is_read_too(generated: tuple[str, str], code_in_a_name: str) -> None:
    """TileLang writes the name of `T.call_extern` as it is."""
    source = generated[1].replace("tl::fence_barrier_init(", f"{code_in_a_name}(")
    assert source != generated[1]
    with pytest.raises(UnplannableCallError, match="generated CUDA with"):
        require_device_code(code(), source)


@pytest.mark.parametrize("flag", ["-O3", "--use_fast_math", "-maxrregcount=128", "--ptxas-options=-O3"])
def test_known_flags_and_passes_reach_the_compiler(flag: str) -> None:
    passes = {"tl.disable_tma_lower": True}
    assert _passes(code(passes=passes, flags=(flag,))) == passes | {"tl.device_compile_flags": [flag]}


@pytest.mark.parametrize("flag", ["-include x.h", "-I/tmp", "-lcublas", "-Xcompiler=-fopenmp", "-DX=1", "--run"])
def test_other_flags_do_not(flag: str) -> None:
    with pytest.raises(UnplannableCallError, match="compiler flag"):
        _passes(code(flags=(flag,)))


@pytest.mark.parametrize(
    ("name", "value"), [("tl.dump_ir_path", "/tmp"), ("os.system", 1), ("tirx.add_lower_pass", [])]
)
def test_other_passes_do_not(name: str, value: Any) -> None:
    with pytest.raises(UnplannableCallError, match="pass configuration"):
        _passes(code(passes={name: value}))
