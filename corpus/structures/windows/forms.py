"""Operators that read a window of elements around each: pooling, and convolutions of one channel or few."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal

from ....core.operator_graph import GraphValue, OperatorGraph, referenced
from ..elementwise import FLOATS
from ..views import plain_name

_POOLS = {f"{kind}_pool{rank}d": rank for kind in ("max", "avg") for rank in (1, 2, 3)}
_MOST_TAPS = 64
"""Elements of a window: the kernel has lines for each."""


@dataclass(frozen=True)
class Window:
    """The elements of its operand that an operator reads for one result."""

    kind: Literal["max", "avg", "convolution"]
    operand: GraphValue
    extents: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    channels: int = 1
    """Number of the operand's channels that a channel of the result needs."""
    group: int = 1
    """Channels of the result that need the same ones."""
    divisor: int | None = None
    """Divisor of an average; None if only elements within the operand count."""

    @property
    def taps(self) -> list[tuple[int, ...]]:
        """For each element of the window, its number along each dimension."""
        return list(product(*(range(extent) for extent in self.extents)))


def window_of(graph: OperatorGraph, value: GraphValue) -> Window | None:
    """Return the window of an operator, if structures support it and it is small."""
    operator = plain_name(value)
    if operator not in (*_POOLS, "convolution", "_adaptive_avg_pool2d") or len(value.shapes) != 1:
        return None
    operand = graph.by_name[value.operands[0]]
    if value.dtype not in FLOATS or operand.dtype != value.dtype:
        return None
    if operator == "convolution":
        found = _convolution(graph, value, operand)
    elif operator == "_adaptive_avg_pool2d":
        found = _adaptive(value, operand)
    else:
        found = _pool(value, operand, _POOLS[operator])
    return found if found is not None and len(found.taps) * found.channels <= _MOST_TAPS else None


def numbers(item: Any, rank: int, default: int) -> tuple[int, ...]:
    """Return a number for each dimension."""
    given = [item] if isinstance(item, int) else list(item or [])
    given = given or [default]
    return tuple(int(number) for number in (given if len(given) == rank else given * rank))


def _pool(value: GraphValue, operand: GraphValue, rank: int) -> Window | None:
    most = plain_name(value).startswith("max")
    names = ["kernel_size", "stride", "padding"]
    names += ["dilation", "ceil_mode"] if most else ["ceil_mode", "count_include_pad", "divisor_override"]
    given = dict(zip(names, value.arguments[1:], strict=False)) | value.keywords
    extents = numbers(given["kernel_size"], rank, 1)
    stride = numbers(given.get("stride"), rank, 0) if given.get("stride") else extents
    padding, dilation = (numbers(given.get(name), rank, default) for name, default in (("padding", 0), ("dilation", 1)))
    if most:
        return Window("max", operand, extents, stride, padding, dilation)
    if given.get("ceil_mode"):
        return None  # its divisor depends on where the window ends
    divisor = given.get("divisor_override") or prod(extents)
    inside = not given.get("count_include_pad", True) and not given.get("divisor_override") and any(padding)
    return Window("avg", operand, extents, stride, padding, dilation, divisor=None if inside else divisor)


def _adaptive(value: GraphValue, operand: GraphValue) -> Window | None:
    sizes = list(zip(operand.shape[-2:], value.shape[-2:], strict=True))
    if any(before % after for before, after in sizes):
        return None
    extents = tuple(before // after for before, after in sizes)
    return Window("avg", operand, extents, extents, (0, 0), (1, 1), divisor=prod(extents))


def _convolution(graph: OperatorGraph, value: GraphValue, operand: GraphValue) -> Window | None:
    given = value.arguments
    weight = graph.by_name[str(referenced(given[1]))]
    if given[6] or len(operand.shape) != len(weight.shape) or weight.dtype != value.dtype:
        return None
    rank = len(weight.shape) - 2
    stride, padding, dilation = (numbers(given[place], rank, default) for place, default in ((3, 1), (4, 0), (5, 1)))
    group, channels = weight.shape[0] // int(given[8]), weight.shape[1]
    return Window("convolution", operand, weight.shape[2:], stride, padding, dilation, channels, group)
