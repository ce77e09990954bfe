"""Reads the stores of a function's tile: lines of one length, of which each tile has a part."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ..applicability import need, need_a, require
from ..source import code, put
from ..tree import body_of, calls_in, edited, named
from .affine import Affine, Stride
from .function import Function, argument
from .values import ValueNumbers

_SIDES = ("row", "column")
_NONE = "a store is not of a tile of lines"


@dataclass(frozen=True)
class TileStore:
    """The store of a tile [rows, columns] at `line * length + part * width + 0, 1, ...`, which ends with the line."""

    parameter: str
    value: str
    statement: cst.SimpleStatementLine
    offset: str
    """Where the elements of the tile are in the buffer, as an expression at the store."""
    mask: str
    length: Stride
    width: str
    """The parameter that is the tile's length along the lines."""
    axis: int
    """The tile's axis along the lines."""
    shape: str
    """Shape of the tile, as a list."""


def tile_store(function: Function, parameter: str) -> TileStore:
    """Return the one store to a parameter, of a tile of lines.

    Raises NotApplicableError where it has any other form.
    """
    values, found = ValueNumbers(), list[TileStore]()
    for statement in body_of(function.node):
        for call in calls_in(statement, "tl.store"):
            base, offset = need(values.address(call.args[0].value, function.parameters), _NONE)
            if base == parameter:
                found.append(_read(function, values, statement, call, parameter, offset))
        values.run(statement)
    loaded = any(function.base(call.args[0].value) == parameter for call in function.loads)
    require(len(found) == 1 and not loaded, f"{parameter} is not written in one store alone")
    return found[0]


def _read(
    function: Function, values: ValueNumbers, statement: cst.BaseStatement, call: cst.Call, base: str, number: int
) -> TileStore:
    affine, mask = Affine(values, function.parameters), need(argument(call, "mask", 2), _NONE)
    strides, offset = need(affine.strides(number), _NONE), offset_of(function, call.args[0].value, base)
    lanes = {index: end for index in strides if (end := affine.lanes(index)) is not None}
    widths = {axis: values.key(end) for (_, axis), end in lanes.items()}
    named = len(lanes) == 2 and all(widths.get(side, ("",))[0] == "name" for side in _SIDES)
    require(named and values.of(offset) == number, _NONE)
    along = [index for index in lanes if strides[index] == Stride(1, ())]
    scalar = all(affine.is_scalar(index) for index in strides if index not in lanes)
    require(len(along) == 1 and scalar, _NONE)
    (run,), (line,) = along, {*lanes} - {*along}
    length, width = strides[line], str(widths[run[1]][1])
    within = {run, *(index for index, stride in strides.items() if stride == Stride(1, (width,)))}
    whole = all(stride.is_multiple_of(length) for index, stride in strides.items() if index not in within)
    part = {index: strides[index] for index in within}
    ends = (affine.less(condition) for condition in affine.conditions(values.of(mask)))
    ended = any(item and affine.strides(item[0]) == part and affine.size(item[1]) == length for item in ends)
    require(len(within) == 2 and whole and ended, _NONE)
    value = code(call.args[1].value)
    shape, axis = ", ".join(str(widths[side][1]) for side in _SIDES), _SIDES.index(run[1])
    statement = need_a(cst.SimpleStatementLine, statement, "the store is in a loop or a branch")
    return TileStore(base, value, statement, offset, code(mask), length, width, axis, f"[{shape}]")


def offset_of(function: Function, pointer: cst.BaseExpression, base: str) -> str:
    """Write a pointer without its base, and with what the function adds to that. Raises NotApplicableError."""
    if isinstance(pointer, cst.Name) and pointer.value != base:
        pointer = function.value_of(pointer.value) or pointer
    bases, updates = named(pointer, base), function.updates.get(base, ())
    plain = all(isinstance(update.operator, cst.AddAssign) for update in updates)
    require(len(bases) == 1 and base not in function.assignments and plain, f"what is added to {base} is not clear")
    added = " + ".join(f"({code(update.value)})" for update in updates) or "0"
    return code(edited(pointer, {bases[0]: put(f"({added})")}))
