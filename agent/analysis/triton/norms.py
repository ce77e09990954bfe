"""Finds where a norm sums its rows, and the squares of their deviations from the mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from ..search import contains, find_all
from ..source import code, names
from .affine import Affine, Stride
from .function import Function, argument, calls_in
from .kernel import Launch
from .launching import texts
from .passes import body_of, passes_of, variable
from .row_values import SQUARES, SUM, Row, RowValues
from .tile_stores import offset_of
from .values import Values, assigned_in

_WRITES = m.Call(func=m.Attribute(attr=m.Name(m.MatchRegex("store|atomic_.*"))))
_ADDED = m.SimpleStatementLine([m.AugAssign(target=m.Name(), operator=m.AddAssign())])


@dataclass(frozen=True)
class RowStatistics:
    """Where a function makes the sums of its rows."""

    length: Stride
    """Of a row."""
    host_length: str
    first: cst.BaseStatement
    """The statement before which the rows are known."""
    offsets: str
    """Where the rows are, as an expression there."""
    axis: int | None
    """Along which an offset's smallest is the row's start; None where it is one number."""
    calls: dict[cst.Call, str] = field(default_factory=dict)
    """The calls of `tl.sum`, each of which makes SUM or SQUARES."""
    loops: list[cst.For] = field(default_factory=list)
    """Loops that do nothing else."""


def row_statistics(launch: Launch, parameter: str) -> RowStatistics | None:
    """Return the statistics of what a function reads from a parameter; None where it does not make both."""
    for found in (_in_passes(launch, parameter), _in_one_block(launch, parameter)):
        if found is not None and sorted(found.calls.values()) == sorted({SUM, SQUARES}):
            return found
    return None


def _in_one_block(launch: Launch, parameter: str) -> RowStatistics | None:
    """Read several rows at a time, each as a whole in a block of two axes."""
    function, values = launch.function, Values()
    rows = RowValues(values, Affine(values, function.parameters), parameter)
    found: RowStatistics | None = None
    row: Row | None = None
    for statement in body_of(function.node):
        for call in () if row else calls_in(statement, "load"):
            row = _row_of_block(rows, values.of(call))
            text = offset_of(function, call.args[0].value, parameter)
            if row is None or text is None or values.of(text) != rows.offset(values.of(call)):
                row = None
                continue
            found = RowStatistics(row.length, row.length.on_host(texts(launch)), statement, text, 1)
        if found is not None and row is not None:
            _add_sums(found, rows, calls_in(statement, "sum"), row)
        values.run(statement)
    return found


def _row_of_block(rows: RowValues, load: int) -> Row | None:
    """Return the row of a load at `row * length + tl.arange(0, length)`, or of a longer range that the mask ends."""
    affine, offset = rows.affine, rows.offset(load)
    strides = affine.strides(offset) if offset is not None else None
    lanes = [index for index in strides or () if index[1] == "column"]
    if offset is None or len(lanes) != 1:
        return None
    width = affine.lanes(lanes[0])
    length = affine.size(width) if width is not None else None
    mask = rows.mask(load)[0]
    if mask is not None:
        limits = [sides[1] for condition in affine.conditions(mask) if (sides := affine.less(condition))]
        length = affine.size(limits[0]) if len(limits) == 1 else None
    row = Row.of(affine, offset, frozenset(lanes), length)
    return row if row is not None and (mask is None or rows.is_within(mask, row)) else None


def _in_passes(launch: Launch, parameter: str) -> RowStatistics | None:
    """Read a row at a time, in loops over its blocks that sum into accumulators."""
    function, values = launch.function, Values()
    passes = passes_of(function)
    offsets = offset_of(function, cst.Name(parameter), parameter)
    if passes is None or offsets is None:
        return None
    rows = RowValues(values, Affine(values, function.parameters), parameter)
    found: RowStatistics | None = None
    accumulators: dict[int, str] = {}
    for statement in body_of(function.node):
        if isinstance(statement, cst.For) and statement in passes.loops:
            length = rows.affine.size(values.of(cst.ensure_type(statement.iter, cst.Call).args[1].value))
            start = values.address(cst.Name(parameter), [parameter])
            if length is None or start is None or start[1] != values.of(offsets):
                return None
            found = found or RowStatistics(length, length.on_host(texts(launch)), statement, offsets, None)
            kinds = _loop(function, rows, statement, length, values.of(offsets))
            accumulators |= {values.names[name]: kind for name, kind in kinds.items()}
            found.loops.extend([statement] if kinds else [])
            continue
        for call in calls_in(statement, "sum") if found is not None else ():
            kind = accumulators.get(values.of(call.args[0].value))
            if found is not None and kind is not None:
                _note(found, rows, call, kind)
        values.run(statement)
    return found


def _loop(function: Function, rows: RowValues, loop: cst.For, length: Stride, start: int) -> dict[str, str]:
    """Follow a loop over a row; return the accumulators of the row or its squares, if it does nothing else."""
    values, kinds = rows.values, dict[str, str]()
    for name in assigned_in(loop) & {*values.names}:  # carried from step to step
        values.names[name] = values.unknown(name)
    values.names[variable(loop)] = values.unknown(variable(loop))
    lanes = values.of(f"tl.arange(0, {code(cst.ensure_type(loop.iter, cst.Call).args[2].value)})")
    run = frozenset({(values.names[variable(loop)], ""), (lanes, "")})
    row = Row(run, length, rows.affine.strides(start) or {})
    known = bool(row.start) and all(item.is_multiple_of(length) for item in row.start.values())
    scalar = all(rows.affine.is_scalar(index) for index in row.start)
    for statement in body_of(loop):
        if known and scalar and m.matches(statement, _ADDED):
            update = cst.ensure_type(cst.ensure_type(statement, cst.SimpleStatementLine).body[0], cst.AugAssign)
            kind = rows.summed(values.of(update.value), row)
            if kind is not None:
                kinds[code(update.target)] = kind
        values.run(statement)
    for name in assigned_in(loop):
        values.names[name] = values.unknown(name)
    return kinds if _does_nothing_else(function, loop, {*kinds}) else {}


def _does_nothing_else(function: Function, loop: cst.For, accumulators: set[str]) -> bool:
    """Return whether what a loop leaves are accumulators, which start before it and are summed after it."""
    if find_all(loop, _WRITES):
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


def _add_sums(found: RowStatistics, rows: RowValues, calls: Iterable[cst.Call], row: Row) -> None:
    for call in calls:
        axis = argument(call, "axis", 1)
        kind = rows.summed(rows.values.of(call.args[0].value), row)
        if kind is not None and axis is not None and code(axis) == "1":
            _note(found, rows, call, kind)


def _note(found: RowStatistics, rows: RowValues, call: cst.Call, kind: str) -> None:
    found.calls[call] = kind
    if kind == SUM:
        rows.sums.add(rows.values.of(call))
