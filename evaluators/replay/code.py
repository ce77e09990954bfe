"""A kernel's code becomes something that can be launched: checked and compiled here, whatever its form."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from ...core.launch_plan import KernelCode
from .c_arguments import require_reach
from .c_source import compile_c
from .generated_c import PREFIX, Given
from .tir.gpu import load_tir
from .triton_code import CHECKS, load_triton
from .values import UnplannableCallError

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


def load_code(code: KernelCode, given: Given | None, folder: Path, device: str, scratch: list[Any]) -> Launcher:
    """Check and compile a kernel, with files in a folder. Raises `UnplannableCallError` where that fails.

    Generated C is compiled for what its launches are `given`. Memory that launches need in addition to the
    plan's tensors is added to `scratch`.
    """
    if (code.kind == "c") != (device == "cpu"):
        raise UnplannableCallError(f"{code.name}: {code.kind} code on the device {device}")
    if code.kind in CHECKS:
        launcher: Launcher = load_triton(code, folder, device, scratch)
        return launcher
    return load_tir(code) if given is None else _load_c(code, given, folder)


def load_together(
    codes: Sequence[tuple[KernelCode, Given | None]], folder: Path, device: str, scratch: list[Any]
) -> list[Launcher]:
    """Load kernels, generated C side by side: a call may have several.

    Raises `UnplannableCallError` where one fails.
    """
    load = partial(load_code, folder=folder, device=device, scratch=scratch)
    if device != "cpu" or len(codes) < 2:
        return [load(*code) for code in codes]
    with ThreadPoolExecutor(min(len(codes), os.cpu_count() or 1), "compile") as threads:
        return list(threads.map(lambda arguments: load(*arguments), codes))


def _load_c(code: KernelCode, given: Given, folder: Path) -> Launcher:
    library = ctypes.CDLL(str(compile_c(code, given, folder)))
    function = library[PREFIX + code.entry]
    try:
        function.argtypes = [_C_TYPES[form] for form in code.parameters]
    except KeyError as error:
        raise UnplannableCallError(f"{code.name}: a parameter of type {error}") from None
    function.restype = ctypes.c_int32
    sizes = [(number, size) for number, size in enumerate(given.parameters) if isinstance(size, int)]

    def launch(grid: Sequence[int], values: Sequence[Any]) -> None:
        for number, size in sizes:
            require_reach(values[number], size)
        function(*[value.data_ptr() if hasattr(value, "data_ptr") else value for value in values])

    return launch
