"""Finds the sums of a norm over its rows, and over the squared deviations from the mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import libcst as cst

from ..applicability import NotApplicableError, fitting, need, require
from ..source import code, names
from ..tree import assigned_in, assignment, body_of, calls_in, contains
from .affine import Affine, Index, Stride
from .function import Function, argument
from .passes import extent_of, passes_of, variable
from .tile_stores import offset_of
from .values import Part, ValueNumbers

SUM, SQUARES = "sum", "squares"
ONE = Stride(1, ())
_NONE = "no rows of the buffer are summed, and the squares of their deviations"


@dataclass(frozen=True)
class Row:
    """Elements at `start + index`: indices with a stride of 1, from 0 up to the length."""

    run: frozenset[Index]
    length: Stride
    start: Mapping[Index, Stride]

    @property
    def is_whole(self) -> bool:
        """Whether it starts at whole lengths."""
        return all(stride.is_multiple_of(self.length) for stride in self.start.values())


@dataclass
class RowValues:
    """Classifies the numbered values of one function that reads rows from a parameter."""

    values: ValueNumbers
    affine: Affine
    parameter: str
    sums: set[int] = field(default_factory=set)
    """Values that are the sum of a row."""

    def offset(self, load: int) -> int | None:
        """Return the index at which a load reads the parameter; None for another value."""
        kind, *rest = self.values.key(load)
        if kind != "load" or not isinstance(rest[1], Part):
            return None
        address = self.values.split_address(rest[1], [self.parameter])
        return None if address is None else address[1]

    def summed(self, number: int, row: Row) -> str | None:
        """Return the kind of a value's sum over the row: SUM, SQUARES, or None for anything else."""
        number, is_masked = self._unmasked(number, row)
        if self._is_element(number, row, zeros=not is_masked):
            return SUM
        kind, *rest = self.values.key(number)
        if kind != "*" or len(rest) != 2 or rest[0] != rest[1] or not isinstance(rest[0], Part):
            return None
        deviation, is_masked_inside = self._unmasked(rest[0], row)
        kind, *rest = self.values.key(deviation)
        if kind != "-" or not isinstance(rest[0], Part) or not isinstance(rest[1], Part):
            return None
        # Beyond the row an element is 0, whose deviation is not.
        element, is_masked = self._unmasked(rest[0], row)[0], is_masked or is_masked_inside
        is_right = self._is_element(element, row, zeros=False, everywhere=not is_masked)
        return SQUARES if is_right and self._is_mean(rest[1], row) else None

    def is_within(self, mask: int, row: Row) -> bool:
        """Return whether a mask says that an element is of the row, and no more."""
        for condition in self.affine.conditions(mask):
            sides = self.affine.less(condition)
            strides = self.affine.strides(sides[0]) if sides else None
            if sides is None or strides is None or self.affine.size(sides[1]) != row.length:
                return False
            if dict(strides) != dict.fromkeys(row.run, ONE):
                return False
        return True

    def mask(self, load: int) -> tuple[int | None, int | None]:
        """Return the mask of a load, None without one, and the value outside of it."""
        mask, other = self.values.key(load)[3:5]
        has_mask = isinstance(mask, Part) and self.values.key(mask)[0] != "constant"
        return (int(str(mask)) if has_mask else None), (int(other) if isinstance(other, Part) else None)

    def _unmasked(self, number: int, row: Row) -> tuple[int, bool]:
        """Return a value without shape, type and `tl.where(mask, value, 0.0)`, and whether it had that."""
        number = self.affine.plain(number)
        call = self.affine.call(number)
        if call is None or call[0] != self.values.of("tl.where") or len(call[1]) != 3:
            return number, False
        mask, value, other = call[1]
        if not self._is_zero(other) or not self.is_within(mask, row):
            return number, False
        return self.affine.plain(value), True

    def _is_zero(self, number: int | None) -> bool:
        return number is not None and self.values.key(number)[:2] in (("constant", 0), ("constant", 0.0))

    def _is_element(self, number: int, row: Row, zeros: bool, everywhere: bool = False) -> bool:
        """Return whether a value is the row's element: with `zeros`, 0 beyond its end; or without an end in sight."""
        offset = self.offset(number)
        if offset is None:
            return False
        mask, other = self.mask(number)
        if mask is not None and (everywhere or not self.is_within(mask, row) or (zeros and not self._is_zero(other))):
            return False
        strides = self.affine.strides(offset)
        return strides is not None and dict(strides) == {**row.start, **dict.fromkeys(row.run, ONE)}

    def _is_mean(self, number: int, row: Row) -> bool:
        match self.values.key(self.affine.plain(number)):
            case ("/", int(above), int(below)):
                return self.affine.plain(above) in self.sums and self._size(below) == row.length
        return False

    def _size(self, number: int) -> Stride | None:
        """Return a size, through `tl.full(shape, size, type)` and as a float too."""
        number = self.affine.plain(number)
        call = self.affine.call(number)
        if call is not None and call[0] == self.values.of("tl.full") and len(call[1]) == 3:
            number = call[1][1]
        key = self.values.key(number)
        whole = key[0] == "constant" and isinstance(key[1], float) and key[1].is_integer()
        return Stride(int(float(str(key[1]))), ()) if whole else self.affine.size(number)


@dataclass(frozen=True)
class RowStatistics:
    """Where a function makes the sums of its rows."""

    length: Stride
    first: cst.BaseStatement
    """The statement before which the rows are known."""
    offsets: str
    """Where the rows are, as an expression there."""
    axis: int | None
    """Axis along which the smallest offset is the row's start; None if it is one number."""
    calls: dict[cst.Call, str] = field(default_factory=dict)
    """The calls of `tl.sum`, each of which makes SUM or SQUARES."""
    loops: list[cst.For] = field(default_factory=list)
    """Loops that do nothing else."""

    def note(self, rows: RowValues, call: cst.Call, kind: str | None) -> None:
        """Add a call, if it makes either; what is SUM may be the mean's sum from here on."""
        if kind is not None:
            self.calls[call] = kind
            rows.sums |= {rows.values.of(call)} if kind == SUM else set()


def row_statistics(function: Function, parameter: str) -> RowStatistics:
    """Return the statistics of the values that a function reads from a parameter.

    Raises NotApplicableError unless it makes both.
    """

    def complete(read: Callable[[Function, RowValues], RowStatistics]) -> RowStatistics:
        values = ValueNumbers()
        found = read(function, RowValues(values, Affine(values, function.parameters), parameter))
        require(sorted(found.calls.values()) == sorted({SUM, SQUARES}), _NONE)
        return found

    return fitting((_in_passes, _in_one_block), complete, _NONE, 1)[0]


def _in_one_block(function: Function, rows: RowValues) -> RowStatistics:
    """Read several rows at a time, each as a whole in a block of two axes."""
    found: tuple[RowStatistics, Row] | None = None
    for statement in body_of(function.node):
        for call in () if found else calls_in(statement, "tl.load"):
            with suppress(NotApplicableError):
                text = offset_of(function, call.args[0].value, rows.parameter)
                row = _row_of_block(rows, rows.values.of(call), rows.values.of(text))
                found = RowStatistics(row.length, statement, text, 1), row
        for call in calls_in(statement, "tl.sum") if found else ():
            axis = argument(call, "axis", 1)
            if found and axis is not None and code(axis) == "1":
                found[0].note(rows, call, rows.summed(rows.values.of(call.args[0].value), found[1]))
        rows.values.run(statement)
    return need(found, _NONE)[0]


def _row_of_block(rows: RowValues, load: int, offset: int) -> Row:
    """Return the row of a load at `row * length + tl.arange(0, length)`, or of a longer range that the mask ends."""
    require(rows.offset(load) == offset, _NONE)
    affine, mask, strides = rows.affine, rows.mask(load)[0], need(rows.affine.strides(offset), _NONE)
    lanes = [index for index in strides if index[1] == "column"]
    require(len(lanes) == 1 and strides[lanes[0]] == ONE, _NONE)
    ends = [affine.lanes(lanes[0])]
    if mask is not None:
        ends = [sides[1] for condition in affine.conditions(mask) if (sides := affine.less(condition))]
    require(len(ends) == 1, _NONE)
    length = need(affine.size(need(ends[0], _NONE)), _NONE)
    row = Row(frozenset(lanes), length, {index: stride for index, stride in strides.items() if index != lanes[0]})
    require(row.is_whole and (mask is None or rows.is_within(mask, row)), _NONE)
    return row


def _in_passes(function: Function, rows: RowValues) -> RowStatistics:
    """Read a row at a time, in loops over its blocks that sum into accumulators."""
    values, passes, pointer = rows.values, passes_of(function), cst.Name(rows.parameter)
    offsets = offset_of(function, pointer, rows.parameter)
    found: RowStatistics | None = None
    accumulators: dict[int, str] = {}
    for statement in body_of(function.node):
        if isinstance(statement, cst.For) and statement in passes.loops:
            length = need(rows.affine.size(values.of(extent_of(statement))), _NONE)
            require(values.address(pointer, [rows.parameter]) == (rows.parameter, values.of(offsets)), _NONE)
            found = found or RowStatistics(length, statement, offsets, None)
            kinds = _loop(function, rows, statement, passes.block, length, values.of(offsets))
            accumulators |= {values.names[name]: kind for name, kind in kinds.items()}
            found.loops.extend([statement] if kinds else [])
            continue
        for call in calls_in(statement, "tl.sum") if found else ():
            need(found, _NONE).note(rows, call, accumulators.get(values.of(call.args[0].value)))
        values.run(statement)
    return need(found, _NONE)


def _loop(function: Function, rows: RowValues, loop: cst.For, step: str, length: Stride, start: int) -> dict[str, str]:
    """Follow a loop over a row; return the accumulators of the row or its squares, if it does nothing else."""
    values, kinds = rows.values, dict[str, str]()
    values.forget(assigned_in(loop) & values.names.keys())
    values.names[variable(loop)] = values.unknown(variable(loop))
    lanes = values.of(f"tl.arange(0, {step})")
    run = frozenset({(values.names[variable(loop)], ""), (lanes, "")})
    row = Row(run, length, rows.affine.strides(start) or {})
    known = row.start and row.is_whole and all(map(rows.affine.is_scalar, row.start))
    for statement in body_of(loop):
        added = assignment(statement)
        if known and added is not None and added[1] == "+=" and isinstance(added[0], cst.Name):
            kind = rows.summed(values.of(added[2]), row)
            if kind is not None:
                kinds[added[0].value] = kind
        values.run(statement)
    values.forget(assigned_in(loop))
    return kinds if _does_nothing_else(function, loop, {*kinds}) else {}


def _does_nothing_else(function: Function, loop: cst.For, accumulators: set[str]) -> bool:
    """Return whether the results of a loop are accumulators, which start before it and are summed after it."""
    if calls_in(loop, ".store", ".atomic_*"):
        return False
    sums = [code(call.args[0].value) for call in function.calls("sum")]
    for name in accumulators:
        outside = [use for use in function.uses(name) if not contains(loop, use)]
        if len(function.assignments.get(name, ())) != 1 or len(outside) != 1 + sums.count(name):
            return False
    body = body_of(function.node)
    after = body[body.index(loop) + 1 :]
    others = assigned_in(loop) - accumulators
    return not any(others & names(item) - assigned_in(item) for item in after)
