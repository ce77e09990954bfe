"""TileLang's kernels for a GPU: lowered IR of host and device, compiled by TileLang with flags of ours.

The IR comes from the candidate's process, so nothing in it is believed: TileLang generates the code for the host and
for the device from it here, and neither may contain anything but what kernels need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ...core.launch_plan import KernelCode
from .generated_text import FORBIDDEN, body_of, calls_through_pointer, is_type, require_only_functions, tokens_of
from .values import UnplannableCall

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
"""What generated device code has no use for: state, other functions, other libraries."""
_KERNEL = re.compile(r"\s*__global__ void (__(launch_bounds|cluster_dims)__\([\d, ]*\) )*\w+\([\w\s,*:<>&]*\)\s*")
_HOST_DIRECTIVES = re.compile(
    r'define TVM_EXPORTS|include "tvm/(runtime/(base|c_backend_api|device_api)|ffi/(c_api|function))\.h"'
    r"|include <((math|stdio|stdbool|torch/mps)\.h|(Metal/Metal|Foundation/Foundation)\.h)>"
    r"|if defined\(_MSC_VER\)|else|endif"
    r"|define TL_ALIGN\(N\) (__declspec\(align\(N\)\)|__attribute__\(\(aligned\(N\)\)\))|ifdef (__OBJC__|__cplusplus)"
)
_FUNCTION = re.compile(r'TVMBackendGetFuncFromEnv\(\w+, "([^"]*)"')
_LIBRARY = "__tvm_ffi__library_ctx"
_STATIC = re.compile(r"\bstatic void\* (\w+_packed) = NULL;")
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_HOST_FUNCTIONS = re.compile(r"__tvm_(set_device|tensormap_\w+|ffi_\w+|cuda_stream_\w+)|tvm_stack_\w+")
_HOST_CALLS = re.compile(
    r"if|for|while|return|sizeof|snprintf|TVMFFIErrorSetRaisedFromCStr|TVMFFIFunctionCall|TVMBackendGetFuncFromEnv"
    r"|TL_ALIGN|max|min"
)


def load_tir(code: KernelCode) -> Any:
    """Return a function that calls the kernel, given the grid, which the code contains, and the arguments.

    Raises `UnplannableCall` where the code is not allowed or does not compile.
    """
    passes = _passes(code)
    try:
        from tilelang import tvm
        from tilelang.backend.module import create_backend_context
        from tilelang.backend.target import determine_target
        from tilelang.engine.lower import device_codegen, device_codegen_without_compile, host_codegen
    except ImportError as error:
        raise UnplannableCall(f"TileLang, which compiles its IR, is not installed or another one ({error})") from None
    try:
        modules = {name: tvm.ir.load_json(text) for name, text in json.loads(code.text).items()}
        target = determine_target("cuda", return_object=True)
        with tvm.transform.PassContext(opt_level=3, config=passes), target:
            context = create_backend_context(target, None, "auto")
            require_device_code(code, device_codegen_without_compile(modules["device"], context).inspect_source())
            compiled = device_codegen(modules["device"], context)
            host = host_codegen(modules["host"], context)
            kernels = [str(name.name_hint) for name in modules["device"].functions]
            require_host_code(code, host.inspect_source(), kernels)
            host.import_module(compiled)
        executable = tvm.runtime.Executable(host)
        executable.jit()
    except UnplannableCall:
        raise
    except Exception as error:  # of TVM, nvcc or g++
        raise UnplannableCall(f"{code.name}: IR that does not compile: {str(error).strip()[-200:]}") from None

    def launch(grid: tuple[int, ...], values: list[Any]) -> None:
        executable(*values)

    return launch


def _passes(code: KernelCode) -> dict[str, Any]:
    passes = code.settings.get("passes", {})
    for name, value in passes.items():
        if not re.fullmatch(r"(tl|tirx?)\.\w+", name) or not isinstance(value, bool | int):
            raise UnplannableCall(f"{code.name}: the pass configuration {name}={value!r}")
    flags = [one for flag in code.flags for one in flag.split()]
    for flag in flags:
        if not FLAGS.fullmatch(flag):
            raise UnplannableCall(f"{code.name}: the compiler flag {flag}, which is not among the allowed ones")
    return {**passes, **({"tl.device_compile_flags": flags} if flags else {})}


def require_device_code(code: KernelCode, source: str) -> None:
    """Raise `UnplannableCall` unless generated CUDA contains only kernels, and in them only what kernels need."""
    body = _body(code, "CUDA", source, _DIRECTIVES)
    if (found := _NEVER.search(body)) is not None:
        raise UnplannableCall(f"{code.name}: generated CUDA with '{found[0]}'")
    if '"' in body:
        raise UnplannableCall(f"{code.name}: generated CUDA with texts")
    outside, depth = "", 0
    for part in re.split(r"([{}])", body):
        depth += {"{": 1, "}": -1}.get(part, 0)
        outside += (";" if part == "}" else "" if part == "{" else part) if depth == 0 else ""
    if depth or not all(_KERNEL.fullmatch(one) for one in outside.split(";") if one.strip()):
        raise UnplannableCall(f"{code.name}: generated CUDA with something else than kernels")


def require_host_code(code: KernelCode, source: str, kernels: Iterable[str]) -> None:
    """Raise `UnplannableCall` unless generated C of the host only checks arguments and launches these kernels."""
    known = set(kernels)
    for name in _FUNCTION.findall(source):
        if name not in known and not _HOST_FUNCTIONS.fullmatch(name):
            raise UnplannableCall(f"{code.name}: host code that calls '{name}'")
    body = _without_handles(_body(code, "C of the host", source, _HOST_DIRECTIVES))
    for name in _CALLED.findall(body):
        if not _HOST_CALLS.fullmatch(name) and not _HOST_FUNCTIONS.fullmatch(name):
            raise UnplannableCall(f"{code.name}: host code that calls '{name}'")
    tokens = tokens_of(body)
    if found := FORBIDDEN.intersection(tokens):
        raise UnplannableCall(f"{code.name}: host code with '{min(found)}'")
    if calls_through_pointer(tokens, lambda one: is_type(one) or one in ("TVMFFIAny", "DLTensor")):
        raise UnplannableCall(f"{code.name}: host code that calls through a pointer")
    require_only_functions(code.name, tokens)


def _body(code: KernelCode, what: str, source: str, directives: re.Pattern[str]) -> str:
    try:
        return body_of(source, directives)
    except UnplannableCall as found:
        raise UnplannableCall(f"{code.name}: generated {what} with {found}") from None


def _without_handles(body: str) -> str:
    """Remove the handles of launched functions, which are looked up at the first call and kept, in all proper uses."""
    body = body.replace(f"void* {_LIBRARY} = NULL;", " ")
    for name in _STATIC.findall(body):
        for use, rest in (
            (f"static void* {name} = NULL;", ""),
            (f"if ({name} == NULL) {{", "if (0) {"),
            (f'TVMBackendGetFuncFromEnv({_LIBRARY}, "", &{name}) != 0', "0"),
            (f"TVMFFIFunctionCall({name}, ", "TVMFFIFunctionCall("),
        ):
            body = body.replace(use, rest)
        body = re.sub(rf"\b{name}\b", " static ", body)  # any other use would keep something else
    return re.sub(rf"\b{_LIBRARY}\b", " static ", body)
