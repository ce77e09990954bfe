"""Calls functions of an installed package as their users do, and compares them with references; without kernelwright.

    python benchmarks/real_function_call.py [--lift-limits] < calls.json

Standard input is a list of calls; for each, one line of JSON is printed. The package is imported once; every call has
a process of its own, forked from there. With --lift-limits, NumPy and torch do what Triton's interpreter cannot.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter

H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3",
    major=9,
    minor=0,
    multi_processor_count=132,
    warp_size=32,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    regs_per_multiprocessor=65536,
    shared_memory_per_multiprocessor=233472,
    shared_memory_per_block_optin=232448,
    L2_cache_size=52428800,
    total_memory=85017493504,
)
TOLERANCES = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 4e-2, torch.float8_e4m3fn: 0.13}
"""Absolute, and relative to the expected number. Integers may differ by one, as roundings at a boundary do."""


def called(call: dict[str, Any]) -> dict[str, Any]:
    """Import the function, call it and its reference with copies of the same inputs, and say how they differ."""
    function = found(call["function"])
    reference, inputs = (loaded(Path(call["file"]), call[name]) for name in ("reference", "inputs"))
    torch.manual_seed(0)
    arguments = [moved(item, call["device"]) for item in inputs(0, **call["sizes"])]
    expected_arguments = [copied(item) for item in arguments]
    expected = reference(*expected_arguments)
    own_arguments = [copied(item) for item in arguments]
    try:
        got = function(*own_arguments)
    except BaseException as error:
        return failed("fails", error)
    difference = differs(expected, got, "result") if expected is not None else ""
    for place, (before, after, own) in enumerate(zip(arguments, expected_arguments, own_arguments, strict=True)):
        if not difference and isinstance(before, torch.Tensor) and not same(before, after):
            difference = differs(after, own, f"argument {place}")
    return {"state": "differs", "message": difference} if difference else {"state": "agrees"}


def failed(state: str, error: BaseException) -> dict[str, Any]:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    root = error.__cause__ or error
    text = f"{type(root).__name__}: {root}".strip().replace("\n", " ")
    return {"state": state, "message": text[:600], "at": f"{frame.filename}:{frame.lineno}"}


def found(name: str) -> Callable[..., Any]:
    """Return what `package/module.py::function` or `...::Class.method` names, from the installed package."""
    path, _, names = name.partition("::")
    value: Any = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    for part in names.split("."):
        value = getattr(value, part)
    return value


def loaded(path: Path, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(f"bench_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def moved(value: Any, device: str) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(moved(item, device) for item in value)
    return value.to(device) if isinstance(value, torch.Tensor) else value


def copied(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(copied(item) for item in value)
    return value.clone() if isinstance(value, torch.Tensor) else value


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.view(torch.uint8) if one.dim() else one, other.view(torch.uint8) if other.dim() else other)


def differs(expected: Any, got: Any, where: str) -> str:
    """Return how two results differ; nothing where they agree."""
    if isinstance(expected, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(expected):
            return f"{where} is {described(got)}, expected {described(expected)}"
        pairs = enumerate(zip(expected, got, strict=True))
        return next((text for at, (a, b) in pairs if (text := differs(a, b, f"{where}[{at}]"))), "")
    if not isinstance(expected, torch.Tensor):
        return "" if expected == got else f"{where} is {described(got)}, expected {expected!r}"
    if not isinstance(got, torch.Tensor) or (got.shape, got.dtype) != (expected.shape, expected.dtype):
        return f"{where} is {described(got)}, expected {described(expected)}"
    one, other = expected.double(), got.detach().double()
    tolerance = TOLERANCES.get(expected.dtype, 0.0)
    least = tolerance if expected.dtype.is_floating_point else 1.0
    if expected.dtype == torch.float8_e4m3fn:
        least = 2**-9
    good = ((one - other).abs() <= least + tolerance * one.abs()) | (one == other) | (one.isnan() & other.isnan())
    worst = (one - other).abs().nan_to_num(float("inf")).max().item() if one.numel() else 0.0
    return "" if good.all() else f"{where}: {int((~good).sum())} of {good.numel()} numbers differ, by up to {worst:.4g}"


def described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(described, value))})"
    return repr(value)[:80]


def imported(call: dict[str, Any]) -> dict[str, Any]:
    """Import the function's module; say why that fails, or how long it took."""
    started = time.perf_counter()
    try:
        found(call["function"])
    except BaseException as error:
        return failed("cannot be imported", error)
    return {"imported_s": round(time.perf_counter() - started, 1)}


def in_own_process(work: Callable[[dict[str, Any]], dict[str, Any]], call: dict[str, Any]) -> dict[str, Any]:
    """Work on a call within a forked process, which is ended after the time limit."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        os.dup2(2, 1)
        try:
            answer = work(call)
        except BaseException as error:
            answer = failed("bench fails", error)
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    ready, _, _ = select.select([read], [], [], call["timeout_s"])
    text = b"".join(chunks(read)) if ready else b""
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.close(read)
    _, status = os.waitpid(child, 0)
    if text:
        return dict(json.loads(text))
    if not ready:
        return {"state": "takes too long", "message": f"more than {call['timeout_s']} s"}
    return {"state": "crashes", "message": f"exit status {os.waitstatus_to_exitcode(status)}"}


def lift_limits_of_interpreter() -> None:
    """Show whether a function agrees but for what Triton's interpreter cannot do.

    Autotuners take their first config, numbers are scalars of Triton, libdevice and device contexts work on a CPU.
    """
    run = triton.runtime.Autotuner.run

    def run_first(self: Any, *arguments: Any, **options: Any) -> Any:
        self.configs = self.configs[:1]
        return run(self, *arguments, **options)

    def scalar(argument: Any) -> Any:
        if isinstance(argument, float):
            handle = interpreter.TensorHandle(np.array([argument], dtype=np.float32), tl.float32)
            return tl.tensor(handle, tl.float32)
        return convert(argument)

    def on_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *others: Any, _semantic: Any = None) -> Any:
            numbers = [torch.as_tensor(item.handle.data.astype(np.float64)) for item in (first, *others)]
            data = function(*numbers).numpy().astype(first.handle.data.dtype)
            return tl.tensor(interpreter.TensorHandle(data, first.handle.dtype), first.type)

        return call

    convert = interpreter._implicit_cvt
    interpreter._implicit_cvt = scalar
    triton.runtime.Autotuner.run = run_first
    torch.cuda.get_device_properties = lambda device=None: H100  # type: ignore[assignment,misc]
    torch.cuda.get_device_capability = lambda device=None: (9, 0)  # type: ignore[assignment,misc]
    torch.cuda.current_device = lambda: 0  # type: ignore[assignment,misc]
    torch.cuda.device = lambda device: contextlib.nullcontext()  # type: ignore[assignment,misc]
    for name in ("gdc_wait", "gdc_launch_dependents"):
        setattr(tl.extra.cuda, name, lambda: None)
    names = ("tanh", "erf", "rsqrt", "exp", "log", "log1p", "expm1", "round", "pow", "sqrt", "isnan")
    functions = {name: getattr(torch, name) for name in names}
    functions |= {"rint": torch.round, "fast_expf": torch.exp, "fast_dividef": torch.div}
    for name, function in functions.items():
        for module in (libdevice, cuda_libdevice):
            setattr(module, name, on_numbers(function))


def chunks(descriptor: int) -> Iterator[bytes]:
    while chunk := os.read(descriptor, 65536):
        yield chunk


if __name__ == "__main__":
    if "--lift-limits" in sys.argv:
        lift_limits_of_interpreter()
    for item in json.load(sys.stdin):
        # In a process of its own first: what a failed import leaves lets the next one pass.
        answer = in_own_process(imported, item)
        if "state" not in answer and "state" not in imported(item):
            answer |= in_own_process(called, item)
        print(json.dumps({"name": item["name"], **answer}), flush=True)
