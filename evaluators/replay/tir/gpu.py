"""TileLang's kernels for a GPU: lowered IR of host and device, compiled by TileLang with flags of ours.

The IR comes from the candidate's process, so nothing in it is believed. TileLang generates the code of the device from
it here, which may contain nothing but what kernels need. The code of the host is ours, see `host`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ....core.launch_plan import KernelCode
from ..generated_text import body_of
from ..values import UnplannableCallError
from .checked_ptx import through_checked_ptx
from .cpu import passes_of
from .host import generated_host

FLAGS = re.compile(
    r"-O[0-3]|--?use_fast_math|--?fmad=(true|false)|--?maxrregcount=\d+|-w|-lineinfo|--expt-relaxed-constexpr"
    r"|--?ptxas-options=-(O\d|v|-register-usage-level=\d+|-allow-expensive-optimizations=(true|false))|-std=c\+\+\d\d"
)
"""Flags of nvcc that a kernel's file may ask for."""
_DIRECTIVES = re.compile(
    r"include <(tl_templates/cuda/[\w/]+\.(h|cuh)|cuda\w*\.h|math_constants\.h|cooperative_groups\.h)>"
    r"|pragma unroll( \d+)?|if defined\(_MSC_VER\) && !defined\(__clang__\) && _MSC_VER < 1940|ifdef ENABLE_BF16|endif"
    r"|define _tl_orig_alignas alignas|define alignas(\(N\))? _tl_orig_alignas(\(\(N\) <= 64 \? \(N\) : 64\))?"
    r"|undef alignas"
)
_NEVER = re.compile(
    r"\b(asm|__asm\w*|__device__|__constant__|__managed__|static|goto|printf|malloc|free|new|delete|template|namespace"
    r"|using|struct|class|union|typedef|thread_local|__attribute__|__declspec|__location__|_Pragma|cudaLaunch\w*|cutlass"
    r"|cublas\w*)\b|\bextern\b(?!\s*__shared__\b)|<<<|\[\["
)
"""Constructs that generated device code never needs: state, other functions, other libraries."""
_KERNEL = re.compile(r"\s*__global__ void (__(launch_bounds|cluster_dims)__\([\d, ]*\) )*\w+\([\w\s,*:<>&]*\)\s*")


def load_tir(code: KernelCode) -> Any:
    """Return a function that calls the kernel, given the grid, which the code contains, and the arguments.

    Raises `UnplannableCallError` where the code is not allowed or does not compile.
    """
    passes = _passes(code)
    try:
        from tilelang import tvm
        from tilelang.backend.module import create_backend_context
        from tilelang.backend.target import determine_target
        from tilelang.engine.lower import device_codegen, device_codegen_without_compile, host_codegen
    except ImportError as error:
        raise UnplannableCallError(
            f"TileLang, which compiles its IR, is not installed or another one ({error})"
        ) from None
    try:
        modules = {name: tvm.ir.load_json(text) for name, text in json.loads(code.text).items()}
        target = determine_target("cuda", return_object=True)
        with tvm.transform.PassContext(opt_level=3, config=passes), target:
            context = create_backend_context(target, None, "auto")
            require_device_code(code, device_codegen_without_compile(modules["device"], context).inspect_source())
            with through_checked_ptx(code.name):
                compiled = device_codegen(modules["device"], context)
        with tvm.transform.PassContext(opt_level=3), target:  # the passes that a kernel asks for could leave out checks
            host = host_codegen(generated_host(code, modules["host"], modules["device"], context), context)
        host.import_module(compiled)
        executable = tvm.runtime.Executable(host)
        executable.jit()
    except UnplannableCallError:
        raise
    except Exception as error:  # of TVM, nvcc or g++
        raise UnplannableCallError(f"{code.name}: IR that does not compile: {str(error).strip()[-200:]}") from None

    def launch(grid: tuple[int, ...], values: list[Any]) -> None:
        executable(*values)

    return launch


def _passes(code: KernelCode) -> dict[str, Any]:
    passes = passes_of(code)
    flags = [part for flag in code.flags for part in flag.split()]
    for flag in flags:
        if not FLAGS.fullmatch(flag):
            raise UnplannableCallError(f"{code.name}: the compiler flag {flag}, which is not among the allowed ones")
    return {**passes, **({"tl.device_compile_flags": flags} if flags else {})}


def require_device_code(code: KernelCode, source: str) -> None:
    """Raise `UnplannableCallError` unless generated CUDA contains only kernels, and in them only what kernels need."""
    try:
        body = body_of(source, _DIRECTIVES)
    except UnplannableCallError as reason:
        raise UnplannableCallError(f"{code.name}: generated CUDA with {reason}") from None
    if (found := _NEVER.search(body)) is not None:
        raise UnplannableCallError(f"{code.name}: generated CUDA with '{found[0]}'")
    if '"' in body:
        raise UnplannableCallError(f"{code.name}: generated CUDA with texts")
    outside, depth = "", 0
    for part in re.split(r"([{}])", body):
        depth += {"{": 1, "}": -1}.get(part, 0)
        outside += (";" if part == "}" else "" if part == "{" else part) if depth == 0 else ""
    if depth or not all(_KERNEL.fullmatch(item) for item in outside.split(";") if item.strip()):
        raise UnplannableCallError(f"{code.name}: generated CUDA with something else than kernels")
