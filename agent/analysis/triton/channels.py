"""Finds the loads of a convolution's input whose channels are far apart in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import libcst as cst

from ..applicability import fitting, need, require
from ..source import code
from ..tree import block_of, contains, find_all
from .affine import COLUMNS, ROWS, Stride, size_of, strides_added, strides_of
from .dots import OperandLoad, dots_of
from .function import Function, argument, joined_parts
from .host import is_dense, is_of_module
from .kernel import Launch

T = TypeVar("T")
_ONE = Stride(1, ())
LEAST = 8
"""Channels: fewer are less than a sector of the cache, and most of a step of the sum is masked."""


@dataclass(frozen=True)
class ChannelLoad:
    """A load at `base + outer + channel * pixels + pixel`, with a pixel that is a sum of bounded indices."""

    load: OperandLoad
    channel: str
    """The index, with its axis: `c[:, None]`."""
    channels: Stride
    pixels: Stride
    """Elements per channel: the stride of the channels."""
    inner: Mapping[str, Stride]
    """The indices of the pixel."""
    outer: Mapping[str, Stride]


@dataclass(frozen=True)
class StridedOperand:
    """An operand of a product that is one load of a tensor that nothing else touches, at indices times strides."""

    load: OperandLoad
    strides: Mapping[str, Stride]
    summed: str
    """The axis of the tile that is summed over: COLUMNS or ROWS."""


def strided_operand(launch: Launch, read: Callable[[StridedOperand], T]) -> T:
    """Return the load of the first operand of any product that fits. Raises NotApplicableError."""
    sides = [side for dot in dots_of(launch.function) for side in ((dot.left, COLUMNS), (dot.right, ROWS))]
    return fitting(sides, lambda side: read(_strided(launch, *side)), "no product", 1)[0]


def _strided(launch: Launch, value: cst.BaseExpression, summed: str) -> StridedOperand:
    load = OperandLoad.of(launch, value)
    strides = strides_of(launch.function, load.pointer)
    strides = need(strides, f"what is added to {load.base} is not a sum of indices times strides")
    require(launch.function.touches_once(load.base), f"{load.base} is read or written elsewhere")
    return StridedOperand(load, strides, summed)


def channel_load(launch: Launch) -> ChannelLoad:
    """Return the load of an operand of the launch's product that sums over channels. Raises NotApplicableError."""
    return strided_operand(launch, lambda found: _read(launch, found))


def _read(launch: Launch, found: StridedOperand) -> ChannelLoad:
    function, call, base, strides = launch.function, found.load.call, found.load.base, found.strides
    dense = is_dense(launch.host, found.load.tensor) and not is_of_module(launch.host, found.load.tensor)
    require(dense, f"{code(found.load.tensor)} may have holes, or is a parameter of the module")
    mask = argument(call, "mask", 1)
    along = [stride for stride in strides if stride.endswith(found.summed)]
    added = strides_added(function, base)
    settled = all(_is_settled(function, call, stride) for stride in strides)
    require(len(along) == 1 and settled, f"{base} is not read at one index of the sum")
    (channel,) = along
    pixels, parts = strides[channel], list(_conditions(function, need(mask, f"{base} is read without a mask")))
    channels = need(_limit(function, parts, channel), f"no mask ends the channels of {base}")
    inner = {name: stride for name, stride in strides.items() if name != channel and not stride.is_multiple_of(pixels)}
    outer = {name: stride for name, stride in strides.items() if name != channel and name not in inner}
    plane = channels.times(pixels)
    fills = _fill(function, parts, inner, pixels) and all(name in launch.arguments for name in plane.sizes)
    require(fills, f"the mask does not hold an index of {base} within the next one's stride")
    whole = added is not None and all(item.is_multiple_of(plane) for item in (*outer.values(), *added))
    require(whole, f"another index of {base} is not of whole samples")
    require(channels.sizes or channels.number >= LEAST, f"{base} has {channels.number} channels")
    return ChannelLoad(found.load, channel, channels, pixels, inner, outer)


def _fill(function: Function, parts: list[cst.BaseExpression], inner: Mapping[str, Stride], pixels: Stride) -> bool:
    """Return whether the mask holds each index of a pixel within the stride of the next, so that no two pixels meet."""
    below = _ONE
    for name, stride in sorted(inner.items(), key=lambda item: item[1].order):
        limit = _limit(function, parts, name)
        if stride != below or limit is None or not _is_positive(function, parts, name):
            return False
        below = below.times(limit)
    return bool(inner) and below == pixels


def _compared(
    parts: list[cst.BaseExpression], operator: type[cst.BaseCompOp]
) -> Iterator[tuple[str, cst.BaseExpression]]:
    """Yield both sides of the comparisons in a mask, the left one as text without its axis."""
    for part in parts:
        match part:
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=found, comparator=right)]):
                if isinstance(found, operator):
                    yield code(left.value if isinstance(left, cst.Subscript) else left), right


def _limit(function: Function, parts: list[cst.BaseExpression], index: str) -> Stride | None:
    """Return the size of `index < size` in a mask."""
    sizes = [right for left, right in _compared(parts, cst.LessThan) if left == _without_axis(index)]
    return size_of(function, sizes[0]) if sizes else None


def _is_positive(function: Function, parts: list[cst.BaseExpression], index: str) -> bool:
    """Return whether a mask has `index >= 0`, or the same for the value that a stride divides to get the index."""
    name = _without_axis(index)
    value = function.value_of(name)
    wanted = {name}
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.FloorDivide):
        wanted.add(code(value.left))
    return any(left in wanted and code(right) == "0" for left, right in _compared(parts, cst.GreaterThanEqual))


def _conditions(function: Function, mask: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the parts of a mask joined by `&`, through names that are only narrowed: `hit = a & b`, `hit = hit & c`."""
    if isinstance(mask, cst.Subscript):
        yield from _conditions(function, mask.value)
    elif len(parts := list(joined_parts(mask))) > 1:
        for part in parts:
            yield from _conditions(function, part)
    elif isinstance(mask, cst.Name) and mask.value in function.assignments:
        joined = [list(joined_parts(value)) for value in function.assignments[mask.value]]
        own = [[isinstance(part, cst.Name) and part.value == mask.value for part in parts] for parts in joined]
        narrows = [any(flags) for flags in own] == [number > 0 for number in range(len(own))]
        if narrows and _side_by_side(function, mask.value):
            for parts, flags in zip(joined, own, strict=True):
                for part, is_own in zip(parts, flags, strict=True):
                    if not is_own:
                        yield from _conditions(function, part)
    else:
        yield mask


def _side_by_side(function: Function, name: str) -> bool:
    """Return whether all assignments of a name stand in one block, so that all of them are made."""
    values = function.assignments[name]
    for block in find_all(function.node, cst.IndentedBlock):
        lines = [child for child in block.body if isinstance(child, cst.SimpleStatementLine)]
        if all(any(contains(line, value) for line in lines) for value in values):
            return name not in function.updates and name not in function.parameters
    return False


def _is_settled(function: Function, call: cst.Call, index: str) -> bool:
    """Return whether a named index does not change until the loops around a load end."""
    name = _without_axis(index)
    if not name.isidentifier() or name in function.parameters:
        return True
    body = block_of(function.node)
    end = next(i for i, statement in enumerate(body) if contains(statement, call))
    values = function.assignments.get(name, ())
    until = [value for value in values if any(contains(statement, value) for statement in body[: end + 1])]
    variables = [code(loop.target) for loop in function.loops]
    return len(until) + variables.count(name) == 1 and name not in function.updates


def _without_axis(index: str) -> str:
    return index.removesuffix(COLUMNS).removesuffix(ROWS)
