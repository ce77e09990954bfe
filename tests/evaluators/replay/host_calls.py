"""Runs host code of TileLang without a GPU: what it would call is noted, and its tensors are only described."""

from __future__ import annotations

import ctypes
import json
import os
from functools import partial
from typing import Any

import tvm_ffi
from kernelwright.core.launch_plan import KernelCode
from kernelwright.evaluators.replay.tir.host import generated_host
from tilelang import tvm
from tilelang.backend.module import create_backend_context
from tilelang.engine.lower import host_codegen

TARGET = {"kind": "cuda", "arch": "sm_90a"}
NAMES = (
    "__tvm_set_device", "__tvm_tensormap_create_tiled", "__tvm_tensormap_create_im2col",
    "__tvm_cuda_stream_set_access_policy_window", "__tvm_cuda_stream_reset_access_policy_window",
)  # fmt: skip
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6, "float8_e4m3fn": 10, "float8_e5m2": 12}
Calls = tuple[Any, ...]


class Described(ctypes.Structure):
    """A tensor as DLPack describes it."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


def described(number: int, shape: list[int], dtype: str) -> Described:
    """A tensor on a GPU, at an address that nothing reads."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    kind = tvm.DataType(dtype)
    code = _CODES.get(dtype, _CODES.get(dtype.rstrip("0123456789"), 0))
    array = ctypes.c_int64 * len(shape)
    return Described(0x100000 * (number + 1), 2, 0, len(shape), code, kind.bits, 1, array(*shape), array(*strides), 0)


def arguments_of(function: Any) -> list[Any]:
    """Tensors and numbers for a function's parameters; extents that depend on an argument are 500."""
    buffers = [function.buffer_map.get(param) for param in function.params]
    return [
        3
        if buffer is None
        else described(number, [getattr(extent, "value", 500) for extent in buffer.shape], str(buffer.dtype))
        for number, buffer in enumerate(buffers)
    ]


def assert_ours_calls_the_same(function: Any, host: Any, device: Any) -> list[Calls]:
    """The host code that is written for a kernel calls what TileLang's own calls; returns these calls."""
    kinds = tuple("pointer" if param in function.buffer_map else str(param.dtype) for param in function.params)
    code = KernelCode(name="kernel", kind="tir", text="", entry="kernel", parameters=kinds)
    with tvm.transform.PassContext(opt_level=3), tvm.target.Target(TARGET):
        context = create_backend_context(TARGET, None, "auto")
        ours = host_codegen(generated_host(code, host, device, context), context)
        theirs = host_codegen(host, context)
    arguments, kernels = arguments_of(function), [str(function_.name_hint) for function_ in device.functions]
    expected = calls_of(theirs, arguments, kernels)
    assert calls_of(ours, arguments, kernels) == expected
    assert {name for name, *_ in expected} >= {*kernels}
    return expected


def calls_of(host: Any, arguments: list[Any], kernels: list[str]) -> list[Calls]:
    """What the compiled host calls, with addresses on the stack by the order in which they occur.

    It runs in a process of its own, because compiled modules keep what they called until a process ends.
    """
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        said: Any = "no calls"
        try:
            said = _noted(host, arguments, (*NAMES, *kernels))
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            with os.fdopen(writing, "w") as pipe:
                json.dump(said, pipe)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = json.load(pipe)
    os.waitpid(child, 0)
    if isinstance(said, str):
        raise RuntimeError(said)
    return [tuple(call) for call in said]


def _noted(host: Any, arguments: list[Any], names: tuple[str, ...]) -> list[Calls]:
    noted: list[Calls] = []
    places: dict[int, str] = {}

    def plain(value: Any) -> Any:
        if not isinstance(value, ctypes.c_void_p):
            return value
        address = value.value or 0
        return address if address < 2**40 else places.setdefault(address, f"stack {len(places)}")

    def note(name: str, *values: Any) -> None:
        noted.append((name, *map(plain, values)))

    for name in names:
        tvm_ffi.register_global_func(name, partial(note, name), override=True)
    passed = [
        ctypes.c_void_p(ctypes.addressof(argument)) if isinstance(argument, Described) else argument
        for argument in arguments
    ]
    tvm.runtime.Executable(host)(*passed)
    return noted
