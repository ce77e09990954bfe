"""Fixes of Triton's interpreter: bf16, fp8, masks, overflow, calls of functions, and autotuners without a clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any


def fix_interpreter() -> None:
    """Replace what the interpreter does otherwise than a GPU. Raises `ImportError` where there is no Triton.

    The interpreter keeps bf16 as whole numbers and multiplies those, and it cuts fp32 off where a GPU rounds; what it
    rounds up to a power of two in fp8 becomes half of it, or less. Of a comparison of two numbers that meets a block it
    makes whole numbers, which are no mask. What an autotuner would choose by time means nothing there. It refuses sums
    and products of whole numbers that overflow, which wrap around on a GPU; looking for them takes half of its time.
    """
    from triton.runtime import interpreter
    from triton.runtime.autotuner import Autotuner

    InterpreterBuilder = interpreter.InterpreterBuilder
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
    interpreter._patch_lang = _patching_once(interpreter._patch_lang)
    InterpreterBuilder.create_dot = _dot_in_fp32(InterpreterBuilder.create_dot)
    InterpreterBuilder.cast_impl = _rounding_to_bf16(InterpreterBuilder.cast_impl)
    InterpreterBuilder.create_splat = _keeping_truth(InterpreterBuilder.create_splat)
    InterpreterBuilder.create_fp_to_fp = _rounding_to_fp8(InterpreterBuilder.create_fp_to_fp)
    Autotuner.do_bench = property(lambda tuner: tuner._do_bench or _untimed)


def _untimed(call: object, quantiles: Sequence[float]) -> list[float]:
    """Stand for Triton's benchmark: all configs take as long, so that the first is chosen."""
    return [0.0 for _ in quantiles]


def _patching_once(really: Any) -> Any:
    """Return the interpreter's replacement of `tl` by its own functions, done once in a launch.

    It is asked again for each function that the kernel calls, and looking through `tl` takes longer than most calls.
    """
    import triton.language as tl

    done: set[int] = set()

    class Scope:
        def __init__(self, scope: Any) -> None:
            self._scope = scope

        def restore(self) -> None:
            done.clear()
            self._scope.restore()

    def patch(function: Any) -> Any:
        modules = {id(item) for item in function.__globals__.values() if item is tl or item is tl.core}
        if modules and modules <= done:
            return None  # of a call inside of a launch: nothing is restored after it
        outermost = not done
        scope = really(function)
        done.update(modules)
        return Scope(scope) if outermost and scope is not None else scope

    return patch


def _keeping_truth(really: Any) -> Any:
    """Return the interpreter's block of one value, with blocks of bool for a bool."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def create_splat(self: Any, block: Any, value: Any) -> Any:
        return really(self, block, TensorHandle(value.data, tl.int1) if value.data.dtype == np.bool_ else value)

    return create_splat


def _dot_in_fp32(really: Any) -> Any:
    """Return the interpreter's product with operands and accumulator in bf16 widened to fp32."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
        found = really(self, widened(a), widened(b), widened(d), *options)
        return self.create_fp_trunc(found, tl.bfloat16) if d.dtype.scalar == tl.bfloat16 else found

    return create_dot


def _rounding_to_bf16(really: Any) -> Any:
    """Return the interpreter's conversion with fp32 rounded to the nearest bf16, of two the even one."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def cast(self: Any, src: Any, dst_type: Any) -> Any:
        if src.dtype.scalar != tl.float32 or dst_type.scalar != tl.bfloat16:
            return really(self, src, dst_type)
        bits = np.ascontiguousarray(src.data).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
        found = np.where(np.isnan(src.data), (bits >> 16) | 0x40, rounded)  # an overflow would make a NaN infinite
        return TensorHandle(found.astype(np.uint16), tl.bfloat16)

    return cast


def _rounding_to_fp8(really: Any) -> Any:
    """Return the interpreter's conversion with fp8 rounded as torch rounds, and as GPUs never beyond what is finite."""
    import torch
    import triton.language as tl
    from triton._C.libtriton import ir
    from triton.runtime.interpreter import TensorHandle

    types = {tl.float8e4nv: torch.float8_e4m3fn, tl.float8e5: torch.float8_e5m2}

    def convert(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        dtype = types.get(dst_type.scalar)
        if dtype is None or src.dtype.scalar.primitive_bitwidth == 8 or rounding_mode == ir.ROUNDING_MODE.RTZ:
            return really(self, src, dst_type, rounding_mode)
        wide = src if src.dtype.scalar == tl.float32 else self.cast_impl(src, tl.float32)
        limits = torch.finfo(dtype)
        found = torch.from_numpy(wide.data.copy()).clamp(limits.min, limits.max).to(dtype)
        return TensorHandle(found.view(torch.uint8).numpy(), dst_type.scalar)

    return convert
