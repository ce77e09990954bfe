"""Descriptors of copies by TMA: the hardware takes every number of them, and none reaches beyond a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..values import UnplannableCallError

_ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""Element sizes of the driver's data types, by their numbers."""
_MODES = ((0, 2), (0, 6), (0, 3), (0, 1))
"""Interleaving, swizzle, promotion in L2, and filling."""


def descriptor(name: str, tiled: bool, buffer: Any, numbers: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return conditions that hold where a descriptor stays within a tensor, and its numbers as they were checked.

    The numbers are those of `__tvm_tensormap_create_tiled` or `_im2col` without the two addresses. What depends on no
    extent is checked here, and `UnplannableCallError` raised.
    """
    from tilelang import tvm

    tirx = tvm.tirx
    kind, rank = (_constant(name, number) for number in numbers[:2])
    if not 0 <= kind < len(_ELEMENT_BYTES) or not (1 if tiled else 3) <= rank <= 5:
        raise UnplannableCallError(f"{name}: a descriptor of elements {kind} and rank {rank}")
    # Boxes and steps; or steps, corners, and the box of pixels and channels.
    ranges = (
        [(1, 256)] * rank + [(1, 8)] * rank
        if tiled
        else [(1, 8)] * rank + [(-(2**15), 2**15)] * (2 * (rank - 2)) + [(1, 1024), (1, 256)]
    )
    ranges = [*ranges, *_MODES]
    rest = [_constant(name, number) for number in numbers[2 + 2 * rank :]]
    if len(rest) != len(ranges) or not all(
        low <= value <= high for value, (low, high) in zip(rest, ranges, strict=True)
    ):
        raise UnplannableCallError(f"{name}: a descriptor with the numbers {rest}")
    sizes = [_wide(number) for number in numbers[2 : 2 + 2 * rank]]
    extents, strides = sizes[:rank], sizes[rank:]
    strides[0] = tirx.IntImm("int64", _ELEMENT_BYTES[kind])  # the driver takes it for granted
    room = _bytes(buffer)
    end: Any = strides[0]
    conditions = [room >= 1]
    for extent, stride in zip(extents, strides, strict=True):
        # No product of these is too large for 64 bits.
        conditions += [extent >= 1, stride >= 1, extent - 1 <= tirx.floordiv(room, tirx.max(stride, 1))]
        end = end + (extent - 1) * stride
    conditions.append(end <= room)
    left = []
    for simplified in map(tvm.arith.Analyzer().simplify, conditions):
        if not isinstance(simplified, tirx.IntImm):
            left.append(simplified)
        elif not int(simplified):
            raise UnplannableCallError(f"{name}: a descriptor that reaches beyond its tensor")
    return left, [*numbers[:2], *extents, *sizes[rank:], *numbers[2 + 2 * rank :]]


def _bytes(buffer: Any) -> Any:
    """Return the bytes from a tensor's address to the end of its last element."""
    from tilelang import tvm

    tirx = tvm.tirx
    shape = [_wide(item) for item in buffer.shape]
    strides = [_wide(item) for item in buffer.strides]
    if not strides:
        strides = [tirx.IntImm("int64", 1)]
        for extent in reversed(shape[1:]):
            strides.insert(0, strides[0] * extent)
    elements: Any = tirx.IntImm("int64", 1)
    for extent, stride in zip(shape, strides, strict=True):
        elements = elements + (extent - 1) * stride
    return tirx.floordiv(elements * tvm.DataType(str(buffer.dtype)).bits, 8)


def _wide(value: Any) -> Any:
    from tilelang import tvm

    tirx = tvm.tirx
    return tirx.IntImm("int64", int(value)) if isinstance(value, tirx.IntImm) else tirx.Cast("int64", value)


def _constant(name: str, value: Any) -> int:
    from tilelang import tvm

    if not isinstance(value, tvm.tirx.IntImm):
        raise UnplannableCallError(f"{name}: a descriptor whose kind depends on an argument")
    return int(value)
