"""The code that launch plans store of a TileLang kernel: lowered IR."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ...core.launch_plan import KernelCode
from .base import UntraceableCallError


def name_of(kernel: Any) -> str:
    """Return the name of a kernel's function."""
    with contextlib.suppress(Exception):  # what was read from the disk cache may know less of itself
        return str(kernel.prim_func.attrs["global_symbol"])
    return "kernel"


class Lowered(NamedTuple):
    """A kernel's code, and the names of its parameters; on a CPU those of the function that becomes C."""

    code: KernelCode
    names: list[str]


class LoweredKernels:
    """The code of compiled kernels, lowered here from their IR: what an object reports of its code may be anything."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Any, tuple[Any, str, Lowered]] = WeakKeyDictionary()

    def of(self, kernel: Any) -> Lowered:
        """Return a kernel as IR, lowered so far that it survives JSON: for a GPU that of host and device, for a CPU the
        function that becomes C. Raises `UntraceableCallError`.
        """
        passes = {str(getattr(name, "value", name)): value for name, value in (kernel.pass_configs or {}).items()}
        flags = passes.pop("tl.device_compile_flags", None) or []
        options = (*([flags] if isinstance(flags, str) else flags), *(kernel.compile_flags or ()))
        function, asked, lowered = self._known.get(kernel, (None, "", None))
        if lowered is None or function is not kernel.prim_func or asked != repr((passes, options)):
            lowered = _lowered(kernel, options, passes)
            self._known[kernel] = kernel.prim_func, repr((passes, options)), lowered
        return lowered


def _lowered(kernel: Any, options: tuple[str, ...], passes: dict[str, Any]) -> Lowered:
    from tilelang import tvm
    from tilelang.engine.lower import lower_to_host_device_ir

    with tvm.transform.PassContext(opt_level=3, config=passes), kernel.target:
        host, device, *_ = lower_to_host_device_ir(kernel.prim_func, kernel.backend_context)
    entry, function, modules = name_of(kernel), kernel.prim_func, {"host": host, "device": device}
    if kernel.target.kind.name != "cuda":
        if len(device.functions) != 1:
            raise UntraceableCallError(f"a kernel that becomes {len(device.functions)} functions of C")
        ((variable, function),) = device.functions.items()
        entry, modules = str(variable.name_hint), {"device": device}
    code = KernelCode(
        name=name_of(kernel),
        kind="tir",
        text=json.dumps({name: tvm.ir.save_json(module) for name, module in modules.items()}),
        entry=entry,
        parameters=tuple(_type_of(parameter, function) for parameter in function.params),
        flags=options,
        settings={"passes": passes},
    )
    return Lowered(code, [str(parameter.name) for parameter in function.params])


def _type_of(parameter: Any, function: Any) -> str:
    if parameter in function.buffer_map or str(parameter.dtype) == "handle":
        return "pointer"
    return {"bool": "int8"}.get(str(parameter.dtype), str(parameter.dtype))


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
    raise UntraceableCallError(f"the C parameter {name}")
