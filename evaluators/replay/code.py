"""A kernel's code becomes something that can be launched: checked and compiled here, whatever its form."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

from ...core.launch_plan import KernelCode
from .c_source import PREFIX, compile_c
from .ptx import load_ptx
from .tir import load_tir
from .values import UnplannableCall, numbers_in

Launcher = Callable[[Sequence[int], Sequence[Any]], None]
"""Takes the grid and the arguments; returns before a GPU has finished."""
_C_TYPES: dict[str, Any] = {
    "pointer": ctypes.c_void_p,
    "int8": ctypes.c_int8,
    "int16": ctypes.c_int16,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8,
    "uint32": ctypes.c_uint32,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


def load_code(code: KernelCode, folder: Path, device: str, scratch: list[Any]) -> Launcher:
    """Check and compile a kernel, with files in a folder. Raises `UnplannableCall` where that fails.

    Memory that its launches take beside the plan's tensors is added to `scratch`.
    """
    if (code.kind == "c") != (device == "cpu"):
        raise UnplannableCall(f"{code.name}: {code.kind} code on the device {device}")
    if code.kind == "ptx":
        launcher: Launcher = load_ptx(code, folder, device, scratch)
        return launcher
    return load_tir(code) if code.kind == "tir" else _load_c(code, folder)


def compile_together(codes: Iterable[KernelCode], folder: Path) -> None:
    """Compile generated C side by side: a call may have several kernels. Raises `UnplannableCall` where one fails."""
    texts = {code.text: code for code in codes if code.kind == "c"}
    if len(texts) > 1:
        with ThreadPoolExecutor(len(texts), "compile") as threads:
            list(threads.map(compile_c, texts.values(), repeat(folder)))


def fits(parameter: str, form: Any) -> bool:
    """Return whether a launch may have this JSON form for a kernel's parameter of this type."""
    if parameter.startswith("tensordesc"):
        return isinstance(form, dict) and "descriptor" in form and bool(numbers_in(form))
    if parameter in ("pointer", "handle") or parameter.startswith("*"):
        return isinstance(form, dict) and "tensor" in form and bool(numbers_in(form))
    return isinstance(form, bool | int | float) or (isinstance(form, dict) and [*form] == ["float"])


def _load_c(code: KernelCode, folder: Path) -> Launcher:
    library = ctypes.CDLL(str(compile_c(code, folder)))
    function = library[PREFIX + code.entry]
    try:
        function.argtypes = [_C_TYPES[form] for form in code.parameters]
    except KeyError as error:
        raise UnplannableCall(f"{code.name}: a parameter of type {error}") from None
    function.restype = ctypes.c_int32

    def launch(grid: Sequence[int], values: Sequence[Any]) -> None:
        function(*[value.data_ptr() if hasattr(value, "data_ptr") else value for value in values])

    return launch
