"""TileLang's kernels for a GPU: lowered IR of host and device, compiled by TileLang with flags of ours.

The IR comes from the candidate's process, so nothing in it is believed: TileLang generates the code for the host and
for the device from it here, and neither may contain anything but what kernels need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...core.launch_plan import KernelCode
from .values import UnplannableCall

FLAGS = re.compile(
    r"-O[0-3]|--?use_fast_math|--?fmad=(true|false)|--?maxrregcount=\d+|-w|-lineinfo|--expt-relaxed-constexpr"
    r"|--?ptxas-options=-(O\d|v|-register-usage-level=\d+|-allow-expensive-optimizations=(true|false))|-std=c\+\+\d\d"
)
"""Flags of nvcc that a kernel's file may ask for."""
_DIRECTIVE = re.compile(r"^\s*#\s*(.*?)\s*$", re.MULTILINE)
_DIRECTIVES = re.compile(
    r"include <(tl_templates/cuda/[\w/]+\.(h|cuh)|cuda\w*\.h|math_constants\.h|cooperative_groups\.h)>"
    r"|pragma unroll( \d+)?|if defined\(_MSC_VER\) && !defined\(__clang__\) && _MSC_VER < 1940|ifdef ENABLE_BF16|endif"
    r"|define _tl_orig_alignas alignas|define alignas(\(N\))? _tl_orig_alignas(\(\(N\) <= 64 \? \(N\) : 64\))?"
    r"|undef alignas"
)
_NEVER = re.compile(
    r"\b(asm|__asm__|__device__|__constant__|__managed__|static|goto|printf|malloc|free|new|delete|template|namespace"
    r"|using|struct|class|union|typedef|cudaLaunch\w*|cutlass|cublas\w*)\b"
)
"""Words that generated device code has no use for: state, other functions, other libraries."""
_FUNCTION = re.compile(r'TVMBackendGetFuncFromEnv\(\w+, "([^"]*)"')
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_HOST_FUNCTIONS = re.compile(r"__tvm_(set_device|tensormap_\w+|ffi_\w+|cuda_stream_\w+)|tvm_stack_\w+")
_HOST_CALLS = re.compile(
    r"if|for|while|return|sizeof|snprintf|TVMFFIErrorSetRaisedFromCStr|TVMFFIFunctionCall|TVMBackendGetFuncFromEnv"
    r"|TL_ALIGN|defined|aligned|align|__declspec|__attribute__|max|min"
)


def load_tir(code: KernelCode, folder: Path, device: str) -> Any:
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
    """Raise `UnplannableCall` unless generated CUDA contains only what kernels need."""
    for directive in _DIRECTIVE.findall(source):
        if not _DIRECTIVES.fullmatch(directive):
            raise UnplannableCall(f"{code.name}: generated CUDA with '#{directive}'")
    body = re.sub(r'extern "C"|//[^\n]*|/\*.*?\*/', " ", source, flags=re.DOTALL)
    if (found := _NEVER.search(body)) is not None:
        raise UnplannableCall(f"{code.name}: generated CUDA with '{found[0]}'")
    if '"' in re.sub(r"#[^\n]*", "", body):
        raise UnplannableCall(f"{code.name}: generated CUDA with texts")


def require_host_code(code: KernelCode, source: str, kernels: Iterable[str]) -> None:
    """Raise `UnplannableCall` unless generated C of the host only checks arguments and launches these kernels."""
    known = set(kernels)
    for name in _FUNCTION.findall(source):
        if name not in known and not _HOST_FUNCTIONS.fullmatch(name):
            raise UnplannableCall(f"{code.name}: host code that calls '{name}'")
    for name in _CALLED.findall(_without_texts(source)):
        if not _HOST_CALLS.fullmatch(name) and not _HOST_FUNCTIONS.fullmatch(name):
            raise UnplannableCall(f"{code.name}: host code that calls '{name}'")


def _without_texts(source: str) -> str:
    return re.sub(r'"(\\.|[^"\\])*"', '""', source)
