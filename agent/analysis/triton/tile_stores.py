"""Reads where a function stores its tile: lines of one length, of which each tile has a part."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import code, expression
from .affine import Affine, Index, Stride
from .function import Function, argument, calls_in
from .kernel import Launch
from .passes import body_of
from .values import Values

_SIDES = ("row", "column")


@dataclass(frozen=True)
class TileStore:
    """The store of a tile [rows, columns] at `line * length + part * width + 0, 1, ...`, which ends with the line."""

    parameter: str
    call: cst.Call
    statement: cst.SimpleStatementLine
    offset: str
    """Where the elements of the tile are in the buffer, as an expression at the store."""
    length: Stride
    width: str
    """The parameter that is the tile's length along the lines."""
    axis: int
    """The tile's axis along the lines."""
    shape: str
    """Of the tile, as a list."""

    @property
    def value(self) -> str:
        """What is stored."""
        return code(self.call.args[1].value)

    @property
    def mask(self) -> str:
        """Which elements are."""
        mask = argument(self.call, "mask", 2)
        assert mask is not None
        return code(mask)


def tile_store(launch: Launch, parameter: str) -> TileStore | None:
    """Return the one store to a parameter, if it is one of a tile of lines; None where it has any other form."""
    function = launch.function
    values = Values()
    found: list[TileStore | None] = []
    for statement in body_of(function.node):
        for call in calls_in(statement, "store"):
            address = values.address(call.args[0].value, function.parameters)
            if address is None:
                return None
            if address[0] == parameter:
                if not isinstance(statement, cst.SimpleStatementLine):
                    return None
                found.append(_read(function, values, statement, call, address))
        values.run(statement)
    if len(found) != 1 or any(function.base(call.args[0].value) == parameter for call in function.loads):
        return None
    return found[0]


def _read(
    function: Function,
    values: Values,
    statement: cst.SimpleStatementLine,
    call: cst.Call,
    address: tuple[str, int],
) -> TileStore | None:
    affine = Affine(values, function.parameters)
    mask = argument(call, "mask", 2)
    strides = affine.strides(address[1])
    offset = offset_of(function, call.args[0].value, address[0])
    if strides is None or mask is None or offset is None or values.of(offset) != address[1]:
        return None
    lanes = {index: end for index in strides if (end := affine.lanes(index)) is not None}
    if sorted(axis for _, axis in lanes) != sorted(_SIDES):
        return None
    along = [index for index in lanes if strides[index] == Stride(1, ())]
    if len(along) != 1 or not all(affine.is_scalar(index) for index in strides if index not in lanes):
        return None
    (run,) = along
    (line,) = (index for index in lanes if index != run)
    length = strides[line]
    key = values.key(lanes[run])
    width = Stride(1, (str(key[1]),))
    within = {run, *(index for index, stride in strides.items() if stride == width)}
    rest = [stride for index, stride in strides.items() if index not in within]
    if key[0] != "name" or len(within) != 2 or not all(item.is_multiple_of(length) for item in rest):
        return None
    part: dict[Index, Stride] = {index: strides[index] for index in within}
    ends = (affine.less(condition) for condition in affine.conditions(values.of(mask)))
    if not any(item and affine.strides(item[0]) == part and affine.size(item[1]) == length for item in ends):
        return None
    widths = {index[1]: values.key(number) for index, number in lanes.items()}
    if any(item[0] != "name" for item in widths.values()):
        return None
    shape = ", ".join(str(widths[side][1]) for side in _SIDES)
    return TileStore(address[0], call, statement, offset, length, str(key[1]), _SIDES.index(run[1]), f"[{shape}]")


def offset_of(function: Function, pointer: cst.BaseExpression, base: str) -> str | None:
    """Write a pointer without its base, and with what the function adds to that; None where it is not clear."""
    if isinstance(pointer, cst.Name) and pointer.value != base:
        pointer = function.value_of(pointer.value) or pointer
    bases = list(find_all(pointer, m.Name(base)))
    updates = function.updates.get(base, ())
    if len(bases) != 1 or base in function.assignments:
        return None
    if not all(isinstance(update.operator, cst.AddAssign) for update in updates):
        return None
    added = " + ".join(f"({code(update.value)})" for update in updates) or "0"
    changed = pointer.deep_replace(bases[0], expression(f"({added})"))
    return code(changed) if isinstance(changed, cst.BaseExpression) else None
