"""What TileLang makes of a kernel, as launch plans keep it: C for a CPU, lowered IR for a GPU."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from typing import Any

from ...core.launch_plan import KernelCode
from .base import UntraceableCall

_SIGNATURE = re.compile(r"^int32_t (\w+)\(([^)]*)\)\s*\{", re.MULTILINE)
_C_TYPES = {
    "int8_t": "int8", "int16_t": "int16", "int32_t": "int32", "int64_t": "int64", "uint8_t": "uint8",
    "uint32_t": "uint32", "float": "float32", "double": "float64", "bool": "int8", "int": "int32",
}  # fmt: skip


def name_of(kernel: Any) -> str:
    """Return the name of a kernel's function."""
    with contextlib.suppress(Exception):  # what was read from the disk cache may know less of itself
        return str(kernel.prim_func.attrs["global_symbol"])
    return "kernel"


def ir_code(kernel: Any) -> KernelCode:
    """A kernel for a GPU as the IR of its host and device, lowered so far that it survives JSON."""
    known = vars(kernel).get("kernelwright_code")
    if known is not None:
        return known  # type: ignore[no-any-return]
    from tilelang import tvm
    from tilelang.engine.lower import lower_to_host_device_ir

    passes = {str(getattr(name, "value", name)): value for name, value in (kernel.pass_configs or {}).items()}
    flags = passes.pop("tl.device_compile_flags", None) or []
    with tvm.transform.PassContext(opt_level=3, config=passes), kernel.target:
        host, device, *_ = lower_to_host_device_ir(kernel.prim_func, kernel.backend_context)
    function = kernel.prim_func
    code = KernelCode(
        name=name_of(kernel),
        kind="tir",
        text=json.dumps({"host": tvm.ir.save_json(host), "device": tvm.ir.save_json(device)}),
        entry=name_of(kernel),
        parameters=tuple("pointer" if one in function.buffer_map else str(one.dtype) for one in function.params),
        flags=(*([flags] if isinstance(flags, str) else flags), *(kernel.compile_flags or ())),
        settings={"passes": passes},
    )
    vars(kernel)["kernelwright_code"] = code
    return code


def c_code(kernel: Any) -> tuple[KernelCode, list[str]]:
    """The C of a kernel for a CPU, and the names of its function's parameters."""
    text = kernel.get_kernel_source()
    entry, declared = _SIGNATURE.findall(text)[-1]
    parameters = [part.replace("__restrict__", "").split() for part in declared.split(",") if part.strip()]
    names = [words[-1].lstrip("*") for words in parameters]
    types = ["pointer" if "*" in "".join(words) else _C_TYPES.get(words[-2], words[-2]) for words in parameters]
    flags = tuple(kernel.compile_flags or ())
    return KernelCode(
        name=name_of(kernel), kind="c", text=text, entry=entry, parameters=tuple(types), flags=flags
    ), names


def c_argument(name: str, values: Sequence[Any], kernel: Any) -> Any:
    """The value of a C parameter, found by its name: a tensor, a scalar, or an extent of a tensor."""
    function = kernel.prim_func
    for parameter, value in zip(function.params, values, strict=True):
        buffer = function.buffer_map.get(parameter)
        if name == str(parameter.name if buffer is None else buffer.data.name):
            return value
    for parameter, value in zip(function.params, values, strict=True):
        buffer = function.buffer_map.get(parameter)
        if buffer is not None and name in (extents := [str(extent) for extent in buffer.shape]):
            return int(value.shape[extents.index(name)])
    raise UntraceableCall(f"the C parameter {name}")
