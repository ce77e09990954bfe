"""Reductions and scans of the interpreter: bf16 and fp8 in fp32, and functions of others on whole blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .numbers import is_narrow, narrowed, widened


def fix_reductions() -> None:
    """Replace what the interpreter does with bits of bf16, and element by element."""
    from triton.runtime.interpreter import ReduceOps, ScanOps

    for owner, names in ((ReduceOps, ("min_max", "sum")), (ScanOps, ("cumsum", "cumprod"))):
        for name in names:
            setattr(owner, name, _in_fp32(getattr(owner, name)))
    ReduceOps.generic_reduce = _reduced
    ScanOps.generic_scan = _scanned


def _in_fp32(really: Callable[..., Any]) -> Callable[..., Any]:
    import triton.language as tl

    def retyped(tensor: Any, handle: Any) -> Any:
        block = tensor.type.is_block()
        return tl.tensor(handle, tensor.type.with_element_ty(handle.dtype) if block else handle.dtype)

    def operate(self: Any, tensor: Any, *options: Any, **named: Any) -> Any:
        tensor = tensor[0] if isinstance(tensor, tuple) else tensor
        dtype = tensor.dtype
        if not is_narrow(dtype):
            return really(self, tensor, *options, **named)
        found = really(self, retyped(tensor, widened(tensor.handle)), *options, **named)
        many = found if isinstance(found, list | tuple) else [found]
        rounded = [
            retyped(item, narrowed(item.handle.data, dtype)) if item.dtype == tl.float32 else item  # an index
            for item in many
        ]
        return type(found)(rounded) if many is found else rounded[0]

    return operate


def _combined(combine: Callable[..., Any], first: list[Any], second: list[Any], dtypes: list[Any]) -> list[Any]:
    """Return blocks combined by a kernel's function, in the types that the operands have."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle, interpreter_semantic

    def block(data: Any, dtype: Any) -> Any:
        return tl.tensor(TensorHandle(np.ascontiguousarray(data), dtype), tl.block_type(dtype, list(data.shape)))

    operands = [block(data, dtype) for datas in (first, second) for data, dtype in zip(datas, dtypes, strict=True)]
    found = combine(*operands)
    many = found if isinstance(found, tuple | tl.tuple) else (found,)
    return [
        np.broadcast_to(interpreter_semantic.cast(interpreter_semantic.to_tensor(item), dtype).handle.data, data.shape)
        for item, dtype, data in zip(many, dtypes, first, strict=True)
    ]


def _reduced(self: Any, input: Any) -> list[Any]:
    """Combine neighbours until one is left, in order; sizes are powers of two."""
    import numpy as np

    original_axis = self.axis
    input, axis = self.unravel(input, self.axis)
    dtypes = [item.dtype for item in input]
    datas = [np.moveaxis(item.handle.data, axis, 0) for item in input]
    rank = len(input[0].handle.data.shape)
    while len(datas[0]) > 1:
        datas = _combined(
            self.combine_fn.rewrite(), [data[::2] for data in datas], [data[1::2] for data in datas], dtypes
        )
    found = []
    for data, dtype in zip(datas, dtypes, strict=True):
        result = data[0]
        if self.keep_dims:
            result = np.expand_dims(result, axis) if original_axis is not None else result.reshape([1] * rank)
        elif original_axis is None:
            result = result.item()
        found.append(self.to_tensor(result, dtype))
    return found


def _scanned(self: Any, input: Any) -> list[Any]:
    """Combine each element with what is before it, over distances that double."""
    import numpy as np

    axis = self.axis
    dtypes = [item.dtype for item in input]
    datas = [np.moveaxis(item.handle.data, axis, 0) for item in input]
    distance = 1
    while distance < len(datas[0]):
        before = [np.roll(data, distance, 0) for data in datas]  # all of them: Triton's sizes are powers of two
        after = _combined(self.combine_fn.rewrite(), before, datas, dtypes)
        datas = [np.concatenate([data[:distance], new[distance:]]) for data, new in zip(datas, after, strict=True)]
        distance *= 2
    return [
        self.to_tensor(np.ascontiguousarray(np.moveaxis(data, 0, axis)), dtype)
        for data, dtype in zip(datas, dtypes, strict=True)
    ]
