"""Finds the loads of a convolution's input whose channels are far apart in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..search import contains, find_all
from ..source import code
from .affine import COLUMNS, ROWS, Stride, size_of, strides_added, strides_of
from .dots import dots_of, operand_load
from .function import Function, argument, joined_parts
from .kernel import Launch
from .tensors import is_dense, is_of_module

_ONE = Stride(1, ())
LEAST = 8
"""Channels: fewer are less than a sector of the cache, and most of a step of the sum is masked."""


@dataclass(frozen=True)
class ChannelLoad:
    """A load at `base + outer + channel * pixels + pixel`, where the pixel is a sum of bounded indices."""

    call: cst.Call
    base: str
    """The parameter."""
    channel: str
    """The index, with its axis: `c[:, None]`."""
    channels: Stride
    """How many there are."""
    pixels: Stride
    """How many a channel has: the stride of the channels."""
    inner: Mapping[str, Stride]
    """The indices of the pixel."""
    outer: Mapping[str, Stride]


def channel_load(launch: Launch) -> ChannelLoad | None:
    """Return the load of an operand of the launch's product that sums over channels; None where there is none."""
    for dot in dots_of(launch.function):
        for value, axis in ((dot.left, COLUMNS), (dot.right, ROWS)):
            call = operand_load(launch.function, value)
            found = _read(launch, call, axis) if call is not None else None
            if found is not None:
                return found
    return None


def _read(launch: Launch, call: cst.Call, summed: str) -> ChannelLoad | None:
    function = launch.function
    pointer, mask = argument(call, "pointer", 0), argument(call, "mask", 1)
    base = function.base(pointer) if pointer is not None else None
    strides = strides_of(function, pointer) if pointer is not None else None
    tensor = launch.arguments.get(base or "")
    if base is None or strides is None or mask is None or tensor is None or not function.touches_once(base):
        return None
    if not is_dense(launch.host, tensor) or is_of_module(launch.host, tensor):
        return None
    along = [stride for stride in strides if stride.endswith(summed)]
    added = strides_added(function, base)
    if len(along) != 1 or added is None or not all(_is_settled(function, call, stride) for stride in strides):
        return None
    (channel,) = along
    pixels, parts = strides[channel], list(_conditions(function, mask))
    channels = _limit(function, parts, channel)
    inner = {name: one for name, one in strides.items() if name != channel and not one.is_multiple_of(pixels)}
    outer = {name: one for name, one in strides.items() if name != channel and name not in inner}
    if channels is None or not _fill(function, parts, inner, pixels) or not _is_known(launch, channels.times(pixels)):
        return None
    plane = channels.times(pixels)
    if not all(item.is_multiple_of(plane) for item in (*outer.values(), *added)):
        return None
    if not channels.sizes and channels.number < LEAST:
        return None
    return ChannelLoad(call, base, channel, channels, pixels, inner, outer)


def _is_known(launch: Launch, size: Stride) -> bool:
    return all(name in launch.arguments for name in size.sizes)


def _fill(function: Function, parts: list[cst.BaseExpression], inner: Mapping[str, Stride], pixels: Stride) -> bool:
    """Return whether the mask holds each index of a pixel within the stride of the next, so that no two pixels meet."""
    stride = _ONE
    for name, one in sorted(inner.items(), key=lambda item: item[1].order):
        limit = _limit(function, parts, name)
        if one != stride or limit is None or not _is_positive(function, parts, name):
            return False
        stride = stride.times(limit)
    return bool(inner) and stride == pixels


def _limit(function: Function, parts: list[cst.BaseExpression], index: str) -> Stride | None:
    """Return the size of `index < size` in a mask."""
    for part in parts:
        if m.matches(part, m.Comparison(comparisons=[m.ComparisonTarget(operator=m.LessThan())])):
            comparison = cst.ensure_type(part, cst.Comparison)
            if _plain(comparison.left) == _without_axis(index):
                return size_of(function, comparison.comparisons[0].comparator)
    return None


def _is_positive(function: Function, parts: list[cst.BaseExpression], index: str) -> bool:
    """Return whether a mask has `index >= 0`, or that of what a stride divides to make the index."""
    name = _without_axis(index)
    value = function.value_of(name)
    wanted = {name}
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.FloorDivide):
        wanted.add(code(value.left))
    at_least_zero = m.Comparison(comparisons=[m.ComparisonTarget(m.GreaterThanEqual(), m.Integer("0"))])
    found = [cst.ensure_type(part, cst.Comparison).left for part in parts if m.matches(part, at_least_zero)]
    return any(_plain(item) in wanted for item in found)


def _conditions(function: Function, mask: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what a mask joins with `&`, through names that are only narrowed: `hit = a & b`, `hit = hit & c`."""
    if isinstance(mask, cst.Subscript):
        yield from _conditions(function, mask.value)
    elif len(parts := list(joined_parts(mask))) > 1:
        for part in parts:
            yield from _conditions(function, part)
    elif isinstance(mask, cst.Name) and mask.value in function.assignments:
        for number, value in enumerate(function.assignments[mask.value]):
            narrows = [
                joined_part
                for joined_part in joined_parts(value)
                if isinstance(joined_part, cst.Name) and joined_part.value == mask.value
            ]
            if bool(narrows) != bool(number) or not _side_by_side(function, mask.value):
                return
        for value in function.assignments[mask.value]:
            for part in joined_parts(value):
                if not (isinstance(part, cst.Name) and part.value == mask.value):
                    yield from _conditions(function, part)
    else:
        yield mask


def _side_by_side(function: Function, name: str) -> bool:
    """Return whether all assignments of a name stand in one block, so that all of them are made."""
    values = function.assignments[name]
    for block in find_all(function.node, m.IndentedBlock()):
        lines = [child for child in block.children if isinstance(child, cst.SimpleStatementLine)]
        if all(any(contains(line, value) for line in lines) for value in values):
            return name not in function.updates and name not in function.parameters
    return False


def _is_settled(function: Function, call: cst.Call, index: str) -> bool:
    """Return whether a named index has one value until the loops around a load end."""
    name = _without_axis(index)
    if not name.isidentifier() or name in function.parameters:
        return True
    body = list(function.node.body.body)
    end = next(i for i, one in enumerate(body) if contains(one, call))
    values = function.assignments.get(name, ())
    until = [value for value in values if any(contains(statement, value) for statement in body[: end + 1])]
    variables = [code(loop.target) for loop in function.loops]
    return len(until) + variables.count(name) == 1 and name not in function.updates


def _plain(node: cst.BaseExpression) -> str:
    """Return an index as text, without its axis."""
    return code(node.value if isinstance(node, cst.Subscript) else node)


def _without_axis(index: str) -> str:
    return index.removesuffix(COLUMNS).removesuffix(ROWS)
