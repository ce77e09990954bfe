"""Loads of a tile of a matrix in a loop: the strides, sizes and places of both axes, from pointers and masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..search import contains
from ..source import code
from .bounds import Bound, bound_of, terms_of
from .function import Function, argument, joined_parts
from .kernel import Launch
from .programs import GROUPED

_ROW = m.Subscript(slice=[m.SubscriptElement(m.Slice()), m.SubscriptElement(m.Index(m.Name("None")))])
_COLUMN = m.Subscript(slice=[m.SubscriptElement(m.Index(m.Name("None"))), m.SubscriptElement(m.Slice())])


@dataclass(frozen=True)
class Axis:
    """One axis of a tile; all but the place are parameters of the function, or numbers."""

    tile: str
    size: str
    stride: str
    place: str
    """Where the tile begins, as an expression of the function."""


@dataclass(frozen=True)
class MatrixLoad:
    """`tl.load` of a tile of two axes that reads zeros outside of a matrix."""

    call: cst.Call
    pointer: str
    """The parameter of the matrix."""
    offset: str | None
    """A parameter that is added to the pointer: where the matrix begins."""
    axes: tuple[Axis, Axis]


def matrix_load(launch: Launch, call: cst.Call) -> MatrixLoad | None:
    """Return a load as one of a matrix; None where pointer or mask have any other form."""
    function = launch.function
    loops = function.loops_around(call)
    other = argument(call, "other", 2)
    if not loops or not call.args or other is None or code(other) not in ("0.0", "0"):
        return None
    if {arg.keyword.value for arg in call.args if arg.keyword} - {"mask", "other"}:
        return None
    loop = loops[-1]
    addends, step = _address(function, call, loop)
    vectors: dict[int, tuple[cst.BaseExpression, str]] = {}
    scalars: list[str] = []
    for addend in addends:
        found = _vector(addend)
        if found is None:
            scalars.append(code(addend))
        elif found[0] in vectors:
            return None
        else:
            vectors[found[0]] = found[1], found[2]
    pointer = function.base(call.args[0].value)
    if pointer is None or pointer not in scalars or set(vectors) != {0, 1} or len(scalars) > 2:
        return None
    scalars.remove(pointer)
    if any(name not in function.parameters or _changes(function, name) for name in [pointer, *scalars]):
        return None
    bounds = list(_bounds(function, argument(call, "mask", 1)))
    axes = [_axis(function, *vectors[i], bounds, loop, step) for i in (0, 1)]
    if None in axes or len(bounds) != 2 or len({axis.tile for axis in axes if axis}) != 2:
        return None
    first, second = (axis for axis in axes if axis is not None)
    moving = [axis for axis in (first, second) if axis.place == code(loop.target)]
    if len(moving) != 1:
        return None
    return MatrixLoad(call, pointer, scalars[0] if scalars else None, (first, second))


def _changes(function: Function, name: str) -> bool:
    return name in function.assignments or name in function.updates


def _address(
    function: Function, call: cst.Call, loop: cst.For
) -> tuple[list[cst.BaseExpression], tuple[str, str] | None]:
    """Return the addends of a load's address, and what each step of the loop adds: a tile and a stride."""
    found: list[cst.BaseExpression] = []
    step: tuple[str, str] | None = None
    for part in _addends(call.args[0].value):
        updates = function.updates.get(part.value, ()) if isinstance(part, cst.Name) else ()
        if isinstance(part, cst.Name) and len(updates) == 1 and len(function.assignments.get(part.value, ())) == 1:
            step = _step(function, updates[0], call, loop)
            if step is None:
                return [], None
            found += _addends(function.assignments[part.value][0])
        else:
            found.append(part)
    return found, step


def _addends(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return [*_addends(node.left), *_addends(node.right)]
    return [node]


def _step(function: Function, update: cst.AugAssign, call: cst.Call, loop: cst.For) -> tuple[str, str] | None:
    """Return tile and stride of `pointers += TILE * stride` at the end of the loop's body, after the load."""
    body = list(loop.body.body)
    own = [i for i, statement in enumerate(body) if contains(statement, update)]
    loads = [i for i, statement in enumerate(body) if contains(statement, call)]
    plain = own and m.matches(body[own[0]], m.SimpleStatementLine(body=[m.AugAssign(operator=m.AddAssign())]))
    if not plain or not loads or own[0] < loads[0]:
        return None
    value = update.value
    if isinstance(value, cst.Name):
        return value.value, "1"
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
        return code(value.left), code(value.right)
    return None


def _vector(node: cst.BaseExpression) -> tuple[int, cst.BaseExpression, str] | None:
    """Return the axis, the indices and the stride of `indices[:, None] * stride`."""
    stride = "1"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        one, other = node.left, node.right
        node, factor = (other, one) if isinstance(other, cst.Subscript) else (one, other)
        stride = code(factor)
    if m.matches(node, _ROW):
        return 0, cst.ensure_type(node, cst.Subscript).value, stride
    if m.matches(node, _COLUMN):
        return 1, cst.ensure_type(node, cst.Subscript).value, stride
    return None


def _axis(
    function: Function,
    indices: cst.BaseExpression,
    stride: str,
    bounds: list[Bound],
    loop: cst.For,
    step: tuple[str, str] | None,
) -> Axis | None:
    terms = dict(terms_of(function, indices, 1))
    tile = next((text for kind, text in terms if kind == "arange"), None)
    places = [text for kind, text in terms if kind != "arange"]
    if tile is None or any(count != 1 for count in terms.values()) or len(places) > 1:
        return None
    variable = code(loop.target)
    matching = [bound for bound in bounds if bound.tile == tile]
    if len(matching) != 1:
        return None
    (bound,) = matching
    if bound.axis is None:  # the loop moves along this axis, with the indices or with the pointers
        within = [("loop", text) for text in places if text.split(",")[0] == variable]
        moved = step == (tile, stride) and not places
        place = variable if moved != bool(within) and (moved or len(places) == 1) else None
    else:
        program = GROUPED[bound.axis] if function.uses(GROUPED[0]) else f"tl.program_id({bound.axis})"
        place = f"{program} * {tile}" if places == [f"{bound.axis}*{tile}"] else None
    if place is None or (bound.axis is not None and step == (tile, stride)):
        return None
    return Axis(tile, bound.size, stride, place)


def _bounds(function: Function, mask: cst.BaseExpression | None) -> Iterator[Bound]:
    """Yield the bounds that a mask joins; nothing where it has any other part."""
    found = [_bound(function, part) for part in _joined(function, mask)] if mask is not None else []
    if None not in found:
        yield from (item for item in found if item is not None)


def _joined(function: Function, mask: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what a mask joins, through names."""
    for part in joined_parts(mask):
        value = function.value_of(part.value) if isinstance(part, cst.Name) else None
        if value is None:
            yield part
        else:
            yield from _joined(function, value)


def _bound(function: Function, part: cst.BaseExpression) -> Bound | None:
    if isinstance(part, cst.IfExp) and code(part.body) == "True":  # as even-sizes writes it
        part = part.orelse
    return bound_of(function, part) if isinstance(part, cst.Comparison) and len(part.comparisons) == 1 else None
