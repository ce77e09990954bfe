"""Functions of libdevice, by the symbols under which Triton links them, with torch and NumPy.

They are computed in fp64, and for fp64 in NumPy's longdouble where rounding is asked for, then rounded once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from ...workers.modules import unobserved
from .limits import InterpreterLimitError

_ROUNDED = re.compile(r"[df]?(add|sub|mul|div|rcp|sqrt|rsqrt|fmaf?)_(r[nduz])")
_CONVERTED = re.compile(r"(?:double|float|u?int|u?ll)2(?:double|float|u?int|u?ll)_(r[nduz])")
_BITS = re.compile(r"\w+_as_\w+")


def fix_libdevice(builder: Any) -> None:
    """Let the interpreter call libdevice, by the module that compilers replace by a GPU's, too.

    A package may have executed that module itself, so functions are known by the module's name, as compilers know them.
    """
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as of_cuda
    from triton.runtime.interpreter import InterpretedFunction, TensorHandle, _get_np_dtype

    def of_gpu(value: Any) -> Any:
        known = getattr(value, "__module__", None) == libdevice.__name__
        return getattr(of_cuda, value.__name__, value) if known else value

    def rewrite(self: Any) -> Any:
        if self.fn not in self.rewritten_fn:
            scope = self.fn.__globals__
            scope.update({name: of_gpu(value) for name, value in scope.items() if type(value) is FunctionType})
        return really_rewrite(self)

    really_rewrite, InterpretedFunction.rewrite = InterpretedFunction.rewrite, rewrite
    for name, value in list(vars(libdevice).items()):
        setattr(libdevice, name, of_gpu(value) if type(value) is FunctionType else value)

    def create_extern_elementwise(
        self: Any, library: str, path: str, symbol: str, arguments: Any, result: Any, pure: bool
    ) -> Any:
        import numpy as np

        with np.errstate(all="ignore"):
            data = computed(symbol, [item.data for item in arguments], _get_np_dtype(result))
        return TensorHandle(data, result.scalar)

    builder.create_extern_elementwise = create_extern_elementwise


def computed(symbol: str, arguments: list[Any], result: Any) -> Any:
    """Return what a symbol computes of NumPy arrays, in a type of NumPy's. Raises `InterpreterLimitError`."""
    import numpy as np

    name = symbol.removeprefix("__nv_")
    wide = np.longdouble if any(item.dtype.itemsize == 8 for item in arguments) else np.float64
    if _BITS.fullmatch(name):
        return arguments[0].view(result)
    if match := _ROUNDED.fullmatch(name):
        exact = _EXACT[match[1].removesuffix("f")](*(item.astype(wide) for item in arguments))
        return _rounded(exact, match[2], result)
    if match := _CONVERTED.fullmatch(name):
        return _rounded(arguments[0].astype(wide), match[1], result)
    function = _function(name) if symbol.startswith("__nv_") else None
    if function is None:
        raise InterpreterLimitError(f"call the external function {symbol}")
    return np.asarray(function(*arguments)).astype(result)


_EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "fma": lambda x, y, z: x * y + z,
    "rcp": lambda x: 1 / x,
    "sqrt": lambda x: x**0.5,
    "rsqrt": lambda x: x**-0.5,
}


def _rounded(exact: Any, mode: str, dtype: Any) -> Any:
    """Round wide numbers: `rn` to the nearest, `rd` down, `ru` up, `rz` to zero. Whole numbers saturate; NaN is 0."""
    import numpy as np

    if dtype.kind in "iu":
        whole = {"rn": np.rint, "rd": np.floor, "ru": np.ceil, "rz": np.trunc}[mode](exact)
        limits = np.iinfo(dtype)
        low, high = whole <= limits.min, whole >= limits.max
        found = np.where(low | high | np.isnan(whole), 0, whole).astype(dtype)
        return np.where(low, limits.min, np.where(high, limits.max, found)).astype(dtype)
    found = exact.astype(dtype)
    if mode == "rn":
        return found
    down = (mode == "rd") | ((mode == "rz") & (exact > 0))
    beyond = np.where(down, found > exact, found < exact)
    return np.where(beyond, np.nextafter(found, np.where(down, -np.inf, np.inf).astype(dtype)), found)


def _function(name: str) -> Callable[..., Any] | None:
    """Return the function of a symbol, whose name may end with the type of what it takes."""
    table = _functions()
    for fast in (name, name.removeprefix("fast_")):
        for end in ("", "f", "d", "ll"):
            if fast.endswith(end) and (found := table.get(fast.removesuffix(end))):
                return found
    return None


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    return {**_of_numpy(), **_of_torch(), **_of_python(), **_of_whole_numbers()}


def _in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: function(*(item.astype("float64") for item in arguments))


def _of_numpy() -> dict[str, Callable[..., Any]]:
    import numpy as np

    def away_from_zero(x: Any) -> Any:
        whole = np.trunc(x)
        return whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0)

    def length(*parts: Any) -> Any:
        return np.sqrt(sum(part * part for part in parts))

    def of_half_turns(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: function(np.pi * np.remainder(x, 2))

    named = {
        name: getattr(np, name)
        for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos", "tan",
                     "sinh", "cosh", "tanh", "floor", "ceil", "trunc", "rint", "hypot", "fmod", "copysign")
    }  # fmt: skip
    inverse = {f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")}
    in_double = {
        **named,
        **inverse,
        "fabs": np.abs,
        "pow": np.power,
        "powi": np.power,
        "exp10": lambda x: np.power(10.0, x),
        "nearbyint": np.rint,
        "llrint": np.rint,
        "round": away_from_zero,
        "llround": away_from_zero,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "rcbrt": lambda x: 1 / np.cbrt(x),
        "rcp64h": lambda x: 1 / x,
        "fdivide": np.divide,
        "fdim": lambda x, y: np.where(x > y, x - y, np.where(np.isnan(x + y), np.nan, 0)),
        "fma": lambda x, y, z: x * y + z,
        "saturate": lambda x: np.clip(np.nan_to_num(x, nan=0.0), 0, 1),
        "sinpi": of_half_turns(np.sin),
        "cospi": of_half_turns(np.cos),
        "rhypot": lambda x, y: 1 / np.hypot(x, y),
        "norm3d": length,
        "norm4d": length,
        "rnorm3d": lambda *parts: 1 / length(*parts),
        "rnorm4d": lambda *parts: 1 / length(*parts),
        "isnan": np.isnan,
        "isinf": np.isinf,
        "finite": np.isfinite,
        "isfinite": np.isfinite,
        "signbit": np.signbit,
        "logb": lambda x: np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.frexp(x)[1] - 1.0)),
        "ilogb": lambda x: np.where(x == 0, -(2**31), np.where(np.isfinite(x), np.frexp(x)[1] - 1, 2**31 - 1)),
    }
    own_type = {
        "nextafter": np.nextafter,
        "ldexp": np.ldexp,
        "scalbn": np.ldexp,
    }
    return {**{name: _in_double(function) for name, function in in_double.items()}, **own_type}


def _of_torch() -> dict[str, Callable[..., Any]]:
    import torch

    special = torch.special
    functions = {
        "erf": special.erf,
        "erfc": special.erfc,
        "erfinv": special.erfinv,
        "erfcinv": lambda x: special.erfinv(1 - x),
        "erfcx": special.erfcx,
        "normcdf": special.ndtr,
        "normcdfinv": special.ndtri,
        "lgamma": special.gammaln,
        "cyl_bessel_i0": special.i0,
        "cyl_bessel_i1": special.i1,
        "j0": special.bessel_j0,
        "j1": special.bessel_j1,
        "y0": special.bessel_y0,
        "y1": special.bessel_y1,
    }
    return {name: _in_double(_on_tensors(function)) for name, function in functions.items()}


def _on_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    import numpy as np
    import torch

    def computed(*arguments: Any) -> Any:
        with unobserved():
            return function(*(torch.from_numpy(np.array(item)) for item in arguments)).numpy()

    return computed


def _of_python() -> dict[str, Callable[..., Any]]:
    import numpy as np

    def gamma(x: float) -> float:
        try:
            return math.gamma(x)
        except (ValueError, OverflowError):
            return math.copysign(math.inf, x) if x == 0 or x > 0 else math.nan

    def remainder(x: float, y: float) -> float:
        return math.nan if y == 0 or math.isinf(x) else math.remainder(x, y)

    return {
        "tgamma": _in_double(np.vectorize(gamma, otypes=[np.float64])),
        "remainder": _in_double(np.vectorize(remainder, otypes=[np.float64])),
    }


def _of_whole_numbers() -> dict[str, Callable[..., Any]]:
    import numpy as np

    def unsigned(x: Any) -> Any:
        return x.view(f"u{x.dtype.itemsize}")

    def on_bits(function: Callable[[int, int], int]) -> Callable[..., Any]:
        def call(x: Any) -> Any:
            bits = 8 * x.dtype.itemsize
            found = [function(int(item), bits) for item in unsigned(np.ascontiguousarray(x)).ravel()]
            return np.array(found, dtype=f"u{x.dtype.itemsize}").reshape(x.shape)

        return call

    def exactly(function: Callable[..., int]) -> Callable[..., Any]:
        """Compute with Python's numbers, which do not overflow; the lower bits are kept."""

        def call(*arguments: Any) -> Any:
            dtype = arguments[0].dtype
            found = np.frompyfunc(lambda *one: function(*map(int, one), dtype), len(arguments), 1)(*arguments)
            bits = np.frompyfunc(lambda one: one % (1 << 8 * dtype.itemsize), 1, 1)(found)
            return np.asarray(bits).astype(f"u{dtype.itemsize}").view(dtype)

        return call

    def low(x: int, dtype: Any) -> int:
        """The lower 24 bits, signed as the type is."""
        x &= 0xFFFFFF
        return x - (1 << 24) if dtype.kind == "i" and x >> 23 else x

    def permuted(x: int, y: int, selector: int, _: Any) -> int:
        both = (x & 0xFFFFFFFF) | ((y & 0xFFFFFFFF) << 32)
        return sum((both >> 8 * (selector >> 4 * place & 7) & 0xFF) << 8 * place for place in range(4))

    def halves(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: function(np.ascontiguousarray(x).view(np.uint64)).astype(np.uint32).view(np.int32)

    high = exactly(lambda x, y, dtype: (x * y) >> 8 * dtype.itemsize)
    low_product = exactly(lambda x, y, dtype: low(x, dtype) * low(y, dtype))
    mean = exactly(lambda x, y, _: (x + y) >> 1)
    mean_up = exactly(lambda x, y, _: (x + y + 1) >> 1)
    distance = exactly(lambda x, y, z, _: abs(x - y) + z)
    return {
        "abs": np.abs,
        "llabs": np.abs,
        "clz": on_bits(lambda x, bits: bits - x.bit_length()),
        "popc": on_bits(lambda x, _: x.bit_count()),
        "ffs": on_bits(lambda x, _: (x & -x).bit_length()),
        "brev": on_bits(lambda x, bits: int(f"{x:0{bits}b}"[::-1], 2)),
        "byte_perm": exactly(permuted),
        "mulhi": high,
        "umulhi": high,
        "mul64hi": high,
        "umul64hi": high,
        "mul24": low_product,
        "umul24": low_product,
        "hadd": mean,
        "uhadd": mean,
        "rhadd": mean_up,
        "urhadd": mean_up,
        "sad": distance,
        "usad": distance,
        "double2hiint": halves(lambda bits: bits >> np.uint64(32)),
        "double2loint": halves(lambda bits: bits & np.uint64(0xFFFFFFFF)),
        "hiloint2double": lambda upper, lower: (
            (unsigned(upper).astype(np.uint64) << np.uint64(32)) | unsigned(lower).astype(np.uint64)
        ).view(np.float64),
    }
