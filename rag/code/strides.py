"""How neighbouring lanes of a GPU address memory: next to each other, or a stride apart.

A lane is an element of `tl.arange`, a TileLang thread, or a step of the last variable of `T.Parallel`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce

from .program import Call, DeviceCode, Program, base


class Stride(IntEnum):
    """Between the addresses of neighbouring lanes. The larger of two is that of their sum."""

    UNIT = 1
    WIDE = 2
    UNKNOWN = 3


@dataclass(frozen=True)
class ThreadStride:
    """One axis of a block of elements."""

    stride: Stride
    extent: int | None
    """Elements, where known."""

    def plus(self, other: ThreadStride) -> ThreadStride:
        """Return the stride of a sum."""
        return ThreadStride(max(self.stride, other.stride), self.extent or other.extent)

    def times(self, stride: Stride) -> ThreadStride:
        """Return the stride multiplied by another."""
        return ThreadStride(max(self.stride, stride), self.extent)


Lanes = Mapping[str, ThreadStride]
"""By axis: 'flat' for one dimension, 'rows' and 'columns' for two; empty for a scalar."""


class Addresses:
    """The lanes of every expression in a kernel, from its assignments in the order of the text."""

    def __init__(self, program: Program, code: DeviceCode) -> None:
        self._program = program
        self._code = code
        self._ops = {id(call.node): call.op for call in code.calls}
        self._known: dict[str, Lanes] = {}
        for loop in code.loops:
            if loop.kind in ("Parallel", "vectorized") and loop.call and loop.variables:
                extent = self._extent(loop.call.node.args[-1]) if loop.call.node.args else None
                self._known[loop.variables[-1]] = {"flat": ThreadStride(Stride.UNIT, extent)}
        for assignment in code.assignments:
            if isinstance(assignment.target, ast.Name):
                lanes = self.of(assignment.value)
                if assignment.op:
                    lanes = _merge(self._known.get(assignment.name, {}), lanes)
                self._known[assignment.name] = lanes

    def of(self, node: ast.expr) -> Lanes:
        """The lanes of an expression."""
        if isinstance(node, ast.Name):
            return self._known.get(node.id, {})
        if isinstance(node, ast.BinOp):
            return self._operation(node)
        if isinstance(node, ast.Subscript):
            return _broadcast(self.of(node.value), node.slice)
        if isinstance(node, ast.Call):
            return self._call(node)
        return {}

    def _call(self, node: ast.Call) -> Lanes:
        op = self._ops.get(id(node), "")
        if op == "arange":
            return {"flat": ThreadStride(Stride.UNIT, self._extent(node.args[-1]) if node.args else None)}
        if op in ("get_thread_binding", "thread_binding"):
            return {"flat": ThreadStride(Stride.UNIT, None)}
        if op == ".to" and isinstance(node.func, ast.Attribute):
            return self.of(node.func.value)
        if op in ("multiple_of", "max_contiguous", "cast") and node.args:
            return self.of(node.args[0])
        nothing: Lanes = {}
        lanes = reduce(_merge, map(self.of, node.args), nothing)
        return {axis: lane.times(Stride.UNKNOWN) for axis, lane in lanes.items()}

    def _operation(self, node: ast.BinOp) -> Lanes:
        left, right = self.of(node.left), self.of(node.right)
        if isinstance(node.op, ast.Add | ast.Sub):
            return _merge(left, right)
        lanes = _merge(left, right)
        stride = Stride.UNKNOWN
        if isinstance(node.op, ast.Mult) and not (left and right):
            factor = node.right if left else node.left
            stride = self._factor(factor)
        elif isinstance(node.op, ast.Mod):
            stride = Stride.UNIT
        return {axis: lane.times(stride) for axis, lane in lanes.items()}

    def _factor(self, node: ast.expr) -> Stride:
        """What multiplying by a scalar does; a stride that the host hands over could be anything."""
        if self._program.value(node, self._code) == 1:
            return Stride.UNIT
        if isinstance(node, ast.Name) and node.id in self._code.parameters:
            position = self._code.parameters.index(node.id)
            for launch in self._program.launches:
                if launch.kernel == self._code.name:
                    given = launch.keywords.get(node.id)
                    given = launch.arguments[position] if given is None and position < len(launch.arguments) else given
                    call = given.func if isinstance(given, ast.Call) else given
                    if isinstance(call, ast.Attribute) and call.attr == "stride":
                        return Stride.UNKNOWN
        return Stride.WIDE

    def _extent(self, node: ast.expr) -> int | None:
        value = self._program.value(node, self._code)
        return value if isinstance(value, int) else None


def _merge(left: Lanes, right: Lanes) -> Lanes:
    merged = dict(left)
    for axis, lane in right.items():
        merged[axis] = merged[axis].plus(lane) if axis in merged else lane
    return merged


def _broadcast(lanes: Lanes, index: ast.expr) -> Lanes:
    """`x[:, None]` and `x[None, :]`; other subscripts are elements of memory."""
    if "flat" in lanes and isinstance(index, ast.Tuple) and len(index.elts) == 2:
        first, second = (isinstance(e, ast.Constant) and e.value is None for e in index.elts)
        if first != second:
            return {"columns" if first else "rows": lanes["flat"]}
    return {axis: lane.times(Stride.UNKNOWN) for axis, lane in lanes.items()}


def accesses(program: Program, code: DeviceCode) -> Iterator[tuple[Stride, int | None]]:
    """Every access to global memory by more than one lane: the stride along its best axis, and its elements.

    Triton lays a block out along the axis on which it is contiguous, so one such axis is enough.
    """
    addresses = Addresses(program, code)
    for call in code.calls:
        if call.op in ("load", "store") and call.node.args:
            lanes = addresses.of(call.node.args[0])
            if lanes:
                extents = [lane.extent for lane in lanes.values()]
                elements = 1
                for extent in extents:
                    elements *= extent or 0
                yield min((lane.stride for lane in lanes.values()), default=Stride.UNKNOWN), elements or None
        elif call.op == "copy" and _is_global(call, code):
            yield Stride.UNIT, None
    for element in code.subscripts:
        if base(element) in code.parameters and isinstance(element.value, ast.Name) and code.grid is not None:
            index = element.slice.elts if isinstance(element.slice, ast.Tuple) else [element.slice]
            inner = [addresses.of(part) for part in index]
            if inner and inner[-1]:
                yield reduce(ThreadStride.plus, inner[-1].values()).stride, None
            elif any(inner):
                yield Stride.WIDE, None


def _is_global(call: Call, code: DeviceCode) -> bool:
    return any(base(arg) in code.parameters for arg in call.node.args[:2])
