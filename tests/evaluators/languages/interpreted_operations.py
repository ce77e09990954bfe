"""Operations in Triton's interpreter, compared with torch's on a CPU: prints {case: what differs}.

A program of its own: TRITON_INTERPRET in its environment is read when Triton is imported.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl
from kernelwright.evaluators.languages.triton import SUPPORT
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_wait
from triton.language.extra.cuda import libdevice as of_cuda


def executed(name: str) -> Any:
    """A function of Triton's libdevice module, executed once more."""
    spec = importlib.util.find_spec(libdevice.__name__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


hyperbolic = executed("tanh")
exponential, reduction = tl.exp, tl.reduce  # before the interpreter is prepared
SUPPORT.prepare("cpu")
SIZE = 128
BF16, FP8, FP8_WIDE = torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2
EIGHT_BITS = {FP8, FP8_WIDE}
"""Triton refuses to make whole numbers of these, and these of whole numbers."""


@triton.jit
def of_one(function: tl.constexpr, out, x, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, function(tl.load(x + at)))


@triton.jit
def of_executed(out, x, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, hyperbolic(tl.load(x + at)))


@triton.jit
def of_two(function: tl.constexpr, out, x, y, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, function(tl.load(x + at), tl.load(y + at)))


@triton.jit
def of_rows(function: tl.constexpr, out, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)
    found = function(tl.load(x + row[:, None] * COLUMNS + tl.arange(0, COLUMNS)))
    tl.store(out + row, found)


@triton.jit
def of_loops(out, count, UNROLLED: tl.constexpr):
    total = 0
    for number in range(count):
        total += number.to(tl.int64)
    for number in tl.range(0, count, 2):
        if number == 2:
            total += 100
    for number in tl.static_range(UNROLLED):
        total += number
    tl.store(out, total)


@triton.jit
def of_numbers(out, number, count, flag, nothing):
    value = number.to(tl.float32) * count.to(tl.float32)
    if nothing is None and flag:
        tl.store(out, value)


@triton.jit
def adding(out, x, place, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.atomic_add(out + tl.load(place + at), tl.load(x + at))


@triton.jit
def larger(x, y):
    return tl.maximum(x, y)


@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d


def numbers(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(SIZE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3
    return drawn.to(torch.float32).to(dtype)


def differs(found: torch.Tensor, expected: torch.Tensor, relative: float = 0.0) -> str:
    if found.dtype != expected.dtype:
        return f"{found.dtype}, expected {expected.dtype}"
    one, other = found.double(), expected.double()
    close = ((one - other).abs() <= relative * other.abs()) | (one == other) | (one.isnan() & other.isnan())
    return "" if close.all() else f"{one[~close][:4].tolist()}, expected {other[~close][:4].tolist()}"


def unary(function: Callable[..., Any], x: torch.Tensor, expected: torch.Tensor, relative: float = 0.0) -> str:
    out = torch.empty_like(expected)
    of_one[(1,)](function, out, x, SIZE)
    return differs(out, expected, relative)


def arithmetic() -> Iterator[tuple[str, str]]:
    functions: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "sum": (lambda x, y: x + y, torch.add),
        "difference": (lambda x, y: x - y, torch.sub),
        "product": (lambda x, y: x * y, torch.mul),
        "two roundings": (lambda x, y: x * y + x, lambda x, y: x * y + x),
        "maximum": (tl.maximum, torch.maximum),
        "minimum": (tl.minimum, torch.minimum),
        "clamped": (lambda x, y: tl.clamp(x, -1.0, 1.0), lambda x, y: x.clamp(-1, 1)),
        "where": (lambda x, y: tl.where(x < y, x, -y), lambda x, y: torch.where(x < y, x, -y)),
        "magnitude": (lambda x, y: tl.abs(x), lambda x, y: x.abs()),
        "fused": (lambda x, y: tl.fma(x, y, x), lambda x, y: (x.double() * y.double() + x.double()).to(BF16)),
    }
    x, y = numbers(BF16), numbers(BF16, 1)
    for name, (function, of_torch) in functions.items():
        out = torch.empty_like(x)
        of_two[(1,)](function, out, x, y, SIZE)
        yield f"bf16 {name}", differs(out, of_torch(x, y))
    quotient = torch.empty(SIZE)
    of_two[(1,)](lambda x, y: x / y, quotient, x, y, SIZE)
    yield "bf16 quotient", differs(quotient, x.float() / y.float())
    truth = torch.empty(SIZE)
    of_two[(1,)](lambda x, y: (x >= y).to(tl.float32), truth, x, y, SIZE)
    yield "bf16 comparison", differs(truth, (x >= y).float())


def conversions() -> Iterator[tuple[str, str]]:
    kinds = [torch.float32, torch.float64, torch.float16, BF16, FP8, FP8_WIDE]
    for source in [*kinds, torch.int32, torch.int64, torch.int8, torch.uint8]:
        for target in [*kinds, torch.int32, torch.int64]:
            x = numbers(source) if source.is_floating_point else numbers(torch.float32).abs().to(source)
            wide = torch.float32 if EIGHT_BITS & {source, target} else source
            expected = x.to(wide).to(target)
            if not EIGHT_BITS & {source, target} or (source.is_floating_point and target.is_floating_point):
                name = f"{source} to {target}".replace("torch.", "")
                yield name, unary(lambda x, target=target: x.to(TYPES[target]), x, expected)
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30] * (SIZE // 4))
    ends = torch.tensor([0, 2**31 - 1, -(2**31), 2**31 - 1] * (SIZE // 4), dtype=torch.int32)
    yield "fp32 beyond int32", unary(lambda x: x.to(tl.int32), special, ends)
    yield "bf16 beyond fp32", unary(lambda x: x.to(tl.bfloat16), special, special.to(BF16))
    bits = torch.arange(SIZE, dtype=torch.uint8) + 128
    for dtype in (FP8, FP8_WIDE):
        yield f"bits of {dtype}", unary(lambda x: x.to(tl.float32), bits.view(dtype), bits.view(dtype).float())


TYPES = {
    torch.float32: tl.float32, torch.float64: tl.float64, torch.float16: tl.float16, BF16: tl.bfloat16,
    FP8: tl.float8e4nv, FP8_WIDE: tl.float8e5, torch.int32: tl.int32, torch.int64: tl.int64,
}  # fmt: skip


def reductions() -> Iterator[tuple[str, str]]:
    functions: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "maximum": (lambda x: tl.max(x, 1), lambda x: x.amax(1)),
        "minimum": (lambda x: tl.min(x, 1), lambda x: x.amin(1)),
        "sum": (lambda x: tl.sum(x, 1), lambda x: x.float().sum(1).to(x.dtype)),
        "own": (lambda x: tl.reduce(x, 1, larger), lambda x: x.amax(1)),
        "own before": (lambda x: reduction(x, 1, larger), lambda x: x.amax(1)),
        "place": (lambda x: tl.argmax(x, 1), lambda x: x.argmax(1)),
        "scan": (lambda x: tl.sum(tl.cumsum(x, 1), 1), lambda x: x.float().cumsum(1).sum(1)),
    }
    for dtype in (BF16, torch.float32):
        x = numbers(dtype).reshape(8, 16)
        for name, (function, of_torch) in functions.items():
            expected = of_torch(x).to(torch.float32)
            out = torch.empty(8)
            of_rows[(1,)](function, out, x, 8, 16)
            yield f"{name} of {dtype}", differs(out, expected, 0.05 if "sum" in name or "scan" in name else 0.0)
    x = numbers(torch.float32)
    state, expected = torch.zeros(()), []
    for number in x:
        state = state * 0.5 + number
        expected.append(state)

    def scan(x: Any) -> Any:
        return tl.associative_scan((x * 0 + 0.5, x), 0, affine)[1]

    def backwards(x: Any) -> Any:
        return tl.associative_scan(x, 0, larger, reverse=True)

    yield "own scan", unary(scan, x, torch.stack(expected), 1e-4)
    yield "own scan backwards", unary(backwards, x, x.flip(0).cummax(0).values.flip(0))


def functions_of_libdevice() -> Iterator[tuple[str, str]]:
    of_torch: dict[str, Callable[..., Any]] = {
        "tanh": torch.tanh, "erf": torch.erf, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1,
        "log1p": torch.log1p, "rint": torch.round, "nearbyint": torch.round, "floor": torch.floor,
        "ceil": torch.ceil, "trunc": torch.trunc, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "log": torch.log,
        "log2": torch.log2, "sin": torch.sin, "cos": torch.cos, "atan": torch.atan, "asinh": torch.asinh,
        "erfc": torch.erfc, "lgamma": torch.lgamma, "isnan": lambda x: x.isnan().int(), "cbrt": lambda x: x ** (1 / 3),
        "round": lambda x: torch.floor(x + 0.5), "normcdf": torch.special.ndtr, "cyl_bessel_i0": torch.special.i0,
    }  # fmt: skip
    for name, function in of_torch.items():
        for dtype in (torch.float32, torch.float64):
            x = numbers(dtype).abs()
            expected = function(x.double()).to(torch.int32 if name == "isnan" else dtype)
            for module in (libdevice, of_cuda):
                where = module.__name__.removeprefix("triton.language.extra.")
                yield f"{where}.{name} of {dtype}", unary(getattr(module, name), x, expected, 1e-6)
    x, y = numbers(torch.float32).abs(), numbers(torch.float32, 1)
    two: dict[str, Callable[..., Any]] = {
        "pow": torch.pow, "atan2": torch.atan2, "fmod": torch.fmod, "copysign": torch.copysign, "div_rn": torch.div,
        "mul_rn": torch.mul, "hypot": torch.hypot, "fast_dividef": torch.div, "nextafter": torch.nextafter,
    }  # fmt: skip
    for name, function in two.items():
        out = torch.empty_like(x)
        of_two[(1,)](getattr(libdevice, name), out, x, y, SIZE)
        yield f"libdevice.{name}", differs(out, function(x, y), 1e-6)
    exact = x.double() + y.double()
    for name, beyond in (("add_rd", torch.gt), ("add_ru", torch.lt)):
        out = torch.empty_like(x)
        of_two[(1,)](getattr(libdevice, name), out, x, y, SIZE)
        yield f"libdevice.{name}", "rounded the other way" if beyond(out.double(), exact).any() else ""
    whole = numbers(torch.float32).mul(1000).int()
    popped = torch.tensor([(int(item) % 2**32).bit_count() for item in whole], dtype=torch.int32)
    leading = torch.tensor([32 - (int(item) % 2**32).bit_length() for item in whole], dtype=torch.int32)
    yield "libdevice.popc", unary(libdevice.popc, whole, popped)
    yield "libdevice.clz", unary(libdevice.clz, whole, leading)
    yield "libdevice.float_as_int", unary(libdevice.float_as_int, x, x.view(torch.int32))


def calls() -> Iterator[tuple[str, str]]:
    x = numbers(torch.float32)
    yield "alias of a builtin", unary(exponential, x, x.exp(), 1e-6)
    out = torch.empty_like(x)
    of_executed[(1,)](out, x, SIZE)
    yield "libdevice executed by a package", differs(out, x.tanh(), 1e-6)
    out = torch.zeros(1)
    of_numbers[(1,)](out, 0.1, 3, True, None)
    yield "numbers", differs(out, torch.tensor([0.1]) * 3)
    counted = torch.zeros(1, dtype=torch.int64)
    of_loops[(1,)](counted, 5, 4)
    yield "loops", differs(counted, torch.tensor([10 + 100 + 6]))
    yield "waiting for a grid", unary(lambda x: (gdc_wait(), x)[1], x, x)
    places = torch.arange(SIZE, dtype=torch.int32) % 4
    for dtype in (BF16, torch.float16, torch.float32):
        given, total = numbers(dtype), torch.zeros(4, dtype=dtype)
        adding[(1,)](total, given, places, SIZE)
        expected = torch.zeros(4, dtype=dtype)
        for number, place in zip(given, places, strict=True):
            expected[place] += number
        yield f"atomic sum of {dtype}", differs(total, expected, 1e-6)


def limits() -> Iterator[tuple[str, str]]:
    def assembly(x: Any) -> Any:
        return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=r,r", [x], tl.float32, True, 1)

    def unknown(x: Any) -> Any:
        kinds = {(tl.float32,): ("of_somebody", tl.float32)}
        return tl.core.extern_elementwise("theirs", "theirs.bc", [x], kinds, is_pure=True)

    x = numbers(torch.float32)
    for name, function in (("assembly", assembly), ("external", unknown)):
        try:
            unary(function, x, x)
        except Exception as error:
            yield name, "" if "Triton's interpreter cannot" in str(error) else str(error)
        else:
            yield name, "it ran"
    compiled = of_one.warmup(tl.abs, x, x, SIZE, grid=(1,))
    for name, ask in (("compiled", lambda: compiled.n_regs), ("kernel", lambda: of_one.device_caches)):
        try:
            ask()
        except AttributeError as error:
            yield name, "" if "Triton's interpreter cannot" in str(error) else str(error)
    if hasattr(compiled, "n_regs"):
        yield "attribute", "it is there"


def gpu() -> Iterator[tuple[str, str]]:
    from triton.runtime import driver

    with torch.cuda.device(None), torch.cuda.device(torch.zeros(1).device), torch.cuda.stream(torch.cuda.Stream()):
        capability = torch.cuda.get_device_capability()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    found = driver.active.utils.get_device_properties(driver.active.get_current_device())
    target = driver.active.get_current_target()
    facts = (capability, properties.multi_processor_count, found["multiprocessor_count"], target.arch, target.backend)
    yield "properties", "" if facts == ((9, 0), 132, 132, 90, "cuda") else str(facts)
    yield "stream", "" if torch.cuda.current_stream().cuda_stream == 0 else "another"
    yield "tensor", "" if torch.zeros(1).is_cuda and torch.zeros(1).device.type == "cpu" else "elsewhere"
    yield "no GPU", "torch has one" if torch.cuda.is_available() else ""


GROUPS = (arithmetic, conversions, reductions, functions_of_libdevice, calls, limits, gpu)

if __name__ == "__main__":
    sys.stdout.write(json.dumps({group.__name__: dict(group()) for group in GROUPS}) + "\n")
