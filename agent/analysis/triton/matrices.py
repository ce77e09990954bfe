"""Loads of a tile of a matrix in a loop: the strides, sizes and places of both axes, from pointers and masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ..applicability import need, require
from ..source import code
from ..template import matches
from ..tree import contains, only_line
from .bounds import Bound, bound_of, terms_of
from .dots import operand_load
from .function import Function, addends, argument, factors, joined_parts
from .kernel import GROUPED, Launch


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
    """A parameter that is added to the pointer: the start of the matrix."""
    axes: tuple[Axis, Axis]


def matrix_load(launch: Launch, operand: cst.BaseExpression) -> MatrixLoad:
    """Return the load of a product's operand. Raises NotApplicableError where pointer or mask have any other form."""
    function, none = launch.function, f"the operand {code(operand)} is not a load of a matrix's tile"
    call = need(operand_load(function, operand), none)
    loops, other = function.loops_around(call), argument(call, "other", 2)
    keywords = {arg.keyword.value for arg in call.args if arg.keyword}
    require(loops and call.args and other and code(other) in ("0.0", "0") and keywords <= {"mask", "other"}, none)
    loop = loops[-1]
    terms, step = _address(function, call, loop, none)
    vectors = {found[0]: found[1:] for addend in terms if (found := _vector(addend))}
    scalars = [code(addend) for addend in terms if not _vector(addend)]
    pointer = need(function.base(call.args[0].value), none)
    plain = pointer in scalars and len(scalars) <= 2 and all(map(function.is_fixed, scalars))
    require(plain and len(terms) == len(scalars) + len(vectors) and vectors.keys() == {0, 1}, none)
    scalars.remove(pointer)
    mask = need(argument(call, "mask", 1), none)
    bounds = [need(_bound(function, part), none) for part in _joined(function, mask)]
    first, second = (_axis(function, *vectors[i], bounds, loop, step, none) for i in (0, 1))
    moving = [axis.place for axis in (first, second)].count(code(loop.target))
    require(len(bounds) == 2 and first.tile != second.tile and moving == 1, none)
    return MatrixLoad(call, pointer, scalars[0] if scalars else None, (first, second))


def _address(
    function: Function, call: cst.Call, loop: cst.For, none: str
) -> tuple[list[cst.BaseExpression], tuple[str, str] | None]:
    """Return the addends of a load's address, and the increment per step of the loop: a tile and a stride."""
    found: list[cst.BaseExpression] = []
    step: tuple[str, str] | None = None
    for part in addends(call.args[0].value):
        name = part.value if isinstance(part, cst.Name) else ""
        if len(function.updates.get(name, ())) == len(function.assignments.get(name, ())) == 1:
            step = need(_step(function.updates[name][0], call, loop), none)
            found += addends(function.assignments[name][0])
        else:
            found.append(part)
    return found, step


def _step(update: cst.AugAssign, call: cst.Call, loop: cst.For) -> tuple[str, str] | None:
    """Return tile and stride of `pointers += TILE * stride` at the end of the loop's body, after the load."""
    body = list(loop.body.body)
    loads = [i for i, statement in enumerate(body) if contains(statement, call)]
    after = any(only_line(statement) is update for statement in body[loads[0] :]) if loads else False
    if not after or not isinstance(update.operator, cst.AddAssign):
        return None
    if isinstance(update.value, cst.Name):
        return update.value.value, "1"
    sides = factors(update.value)
    return (code(sides[0]), code(sides[1])) if sides else None


def _vector(node: cst.BaseExpression) -> tuple[int, cst.BaseExpression, str] | None:
    """Return the axis, the indices and the stride of `indices[:, None] * stride`."""
    stride = "1"
    if (sides := factors(node)) is not None:
        node, factor = sides[::-1] if isinstance(sides[1], cst.Subscript) else sides
        stride = code(factor)
    for axis, form in enumerate(("q_x[:, None]", "q_x[None, :]")):
        if isinstance(node, cst.Subscript) and matches(node, form):
            return axis, node.value, stride
    return None


def _axis(
    function: Function,
    indices: cst.BaseExpression,
    stride: str,
    bounds: list[Bound],
    loop: cst.For,
    step: tuple[str, str] | None,
    none: str,
) -> Axis:
    terms = dict(terms_of(function, indices, 1))
    tile = need(next((text for kind, text in terms if kind == "arange"), None), none)
    places = [text for kind, text in terms if kind != "arange"]
    matching = [bound for bound in bounds if bound.tile == tile]
    require({*terms.values()} == {1} and len(places) <= 1 and len(matching) == 1, none)
    (bound,), place, moved = matching, code(loop.target), step == (tile, stride)
    if bound.axis is None:  # the loop moves along this axis, with the indices or with the pointers
        within = [text for text in places if text.split(",")[0] == place]
        require(within or (moved and not places), none)
    else:
        program = GROUPED[bound.axis] if function.uses(GROUPED[0]) else f"tl.program_id({bound.axis})"
        place = f"{program} * {tile}"
        require(places == [f"{bound.axis}*{tile}"] and not moved, none)
    return Axis(tile, bound.size, stride, place)


def _joined(function: Function, mask: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
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
