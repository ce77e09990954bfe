"""Arithmetic of the interpreter's builder: bf16 and fp8 in fp32, conversions as GPUs make them, masks that are bool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .numbers import is_narrow, narrowed, widened

_SATURATED = {
    "int32": "int32", "int64": "int64", "uint32": "uint32", "uint64": "uint64",
    "int8": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32",
}  # fmt: skip
"""To which whole numbers a GPU converts first; it cuts off what lies beyond them."""


def fix_arithmetic(builder: Any) -> None:
    """Replace methods of the class of the interpreter's builder.

    It keeps bf16 and fp8 as whole numbers, and adds, compares and converts those. A GPU computes in fp32 and rounds
    after each operation.
    """
    for name in ("binary_op", "unary_op"):
        setattr(builder, name, _in_fp32(getattr(builder, name)))
    builder.create_fma = _in_fp32(builder.create_fma)
    builder.create_clampf = _in_fp32(builder.create_clampf)
    builder.create_dot = _dot_in_fp32(builder.create_dot)
    builder.cast_impl = _converting(builder.cast_impl)
    builder.create_fp_to_fp = _rounding(builder.create_fp_to_fp)
    builder.create_splat = _keeping_truth(builder.create_splat)
    builder.create_atomic_rmw = _adding_narrow(builder.create_atomic_rmw)
    _read_scales()


def _in_fp32(really: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operation whose narrow operands are widened, and whose result is rounded to their type.

    Masks are bool, whatever was compared.
    """
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def operate(self: Any, first: Any, *others: Any) -> Any:
        dtype = first.dtype.scalar
        if not is_narrow(dtype):
            found = really(self, first, *others)
        else:
            wide = [widened(item) if isinstance(item, TensorHandle) else item for item in (first, *others)]
            found = really(self, *wide)
            if found.data.dtype != np.bool_:
                return narrowed(found.data, dtype)
        if found.data.dtype == np.bool_ and found.dtype != tl.int1:
            return TensorHandle(found.data, tl.int1)
        return found

    return operate


def _dot_in_fp32(really: Callable[..., Any]) -> Callable[..., Any]:
    """Return the interpreter's product with narrow operands and accumulator widened to fp32."""

    def create_dot(self: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
        found = really(self, widened(a), widened(b), widened(d), *options)
        return narrowed(found.data, d.dtype) if is_narrow(d.dtype.scalar) else found

    return create_dot


def _read_scales() -> None:
    """Let scaled products read scales of eight bits with a mantissa, as NVFP4's; the interpreter takes all for E8M0."""
    from triton.runtime import interpreter

    really = getattr(interpreter, "_dot_scaled_scale_to_f32", None)
    if really is None:  # a Triton whose interpreter has no scaled products, or has them elsewhere
        return

    def to_fp32(scales: Any, *options: Any) -> Any:
        return widened(scales).data if is_narrow(scales.dtype.scalar) else really(scales, *options)

    interpreter._dot_scaled_scale_to_f32 = to_fp32


def _converting(really: Callable[..., Any]) -> Callable[..., Any]:
    """Return the interpreter's conversion between any two types.

    A GPU rounds to bf16 where the interpreter cuts off; it makes NaN zero, and what lies beyond a whole number's range
    that range's end.
    """
    import numpy as np
    from triton.runtime.interpreter import TensorHandle

    def cast(self: Any, src: Any, dst_type: Any) -> Any:
        src, dtype = widened(src), dst_type.scalar
        if is_narrow(dtype):
            return narrowed(src.data, dtype)
        if dtype.name in _SATURATED and src.data.dtype.kind == "f":
            found = _saturated(src.data, np.dtype(_SATURATED[dtype.name]))
            return TensorHandle(found.astype(dtype.name), dtype)
        return really(self, src, dst_type)

    return cast


def _saturated(data: Any, dtype: Any) -> Any:
    import numpy as np

    limits = np.iinfo(dtype)
    wide = np.nan_to_num(data.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    inside = (wide > float(limits.min) - 1) & (wide < float(limits.max) + 1)
    found = np.where(inside, wide, 0.0).astype(dtype)
    return np.where(inside, found, np.where(wide < 0, limits.min, limits.max)).astype(dtype)


def _rounding(really: Callable[..., Any]) -> Callable[..., Any]:
    """Return the interpreter's conversion of bf16 and fp8, rounded as torch rounds.

    What the interpreter rounds up to a power of two in fp8 becomes half of it, or less; fp8's NaN becomes a number.
    """
    import triton.language as tl
    from triton._C.libtriton import ir

    def convert(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        source, dtype = src.dtype.scalar, dst_type.scalar
        known = (is_narrow(source) or is_narrow(dtype)) and "fp8e4b15" not in (source.name, dtype.name)
        if not known or rounding_mode == ir.ROUNDING_MODE.RTZ:
            return really(self, src, dst_type, rounding_mode)
        return self.cast_impl(self.cast_impl(src, tl.float32), dtype)

    return convert


def _keeping_truth(really: Callable[..., Any]) -> Callable[..., Any]:
    """Return the interpreter's block of one value, with blocks of bool for a bool."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def create_splat(self: Any, block: Any, value: Any) -> Any:
        return really(self, block, TensorHandle(value.data, tl.int1) if value.data.dtype == np.bool_ else value)

    return create_splat


def _adding_narrow(really: Callable[..., Any]) -> Callable[..., Any]:
    """Return the interpreter's atomic operations with sums of bf16, one element after the other."""
    import numpy as np
    from triton._C.libtriton import interpreter, ir
    from triton.runtime.interpreter import TensorHandle

    def create_atomic_rmw(self: Any, operation: Any, ptr: Any, val: Any, mask: Any, *order: Any) -> Any:
        dtype = val.dtype.scalar
        if operation != ir.ATOMIC_OP.FADD or not is_narrow(dtype):
            return really(self, operation, ptr, val, mask, *order)
        found = np.zeros_like(val.data)
        for place in zip(*np.nonzero(np.broadcast_to(mask.data, val.data.shape)), strict=True):
            address, everything = ptr.data[place].reshape(1), np.ones(1, bool)
            before = interpreter.load(address, everything, np.zeros(1, val.data.dtype), val.data.dtype)
            found[place] = before[0]
            total = self.create_fadd(TensorHandle(before, dtype), TensorHandle(val.data[place].reshape(1), dtype))
            interpreter.store(address, total.data, everything)
        return TensorHandle(found, dtype)

    return create_atomic_rmw
