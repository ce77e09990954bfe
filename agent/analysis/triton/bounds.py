"""Comparisons of indices with a size that always hold if tiles divide the size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ..change import with_parameters
from ..source import bare, code
from ..template import match, matches
from ..tree import Edit, body_of, edited, find_all
from .function import Function, argument, factors, joined_parts
from .kernel import GROUPED, Launch
from .values import Part, ValueNumbers

DEPTH = 5
_LESS = "q_left < q_right"


@dataclass(frozen=True)
class Bound:
    """`index < size`, with an index that is a tile's start plus an offset within the tile."""

    node: cst.Comparison
    size: str
    """A parameter, or a number."""
    tile: str
    """The parameter with the length of the tile."""
    axis: int | None
    """The grid axis that numbers the tiles; None if a loop from 0 to the size does."""


def bounds_of(launch: Launch) -> Iterator[Bound]:
    """Yield the comparisons in masks that always hold if the tile divides the size."""
    function = launch.function
    for node in find_all(function.node, cst.Comparison):
        bound = bound_of(function, node)
        if bound is not None and only_masks(function, node):
            size = bound.size if bound.size.isdigit() else launch.texts.get(bound.size)
            covered = f"triton.cdiv({size}, {launch.texts.get(bound.tile)})"
            # The grid has no more tiles than the size, if they divide it.
            if bound.axis is None or launch.axes[bound.axis : bound.axis + 1] == [covered]:
                yield bound


def bound_of(function: Function, node: cst.Comparison) -> Bound | None:
    """Return a comparison as a bound of a tile; None for any other."""
    if not matches(node, _LESS):
        return None
    terms = terms_of(function, node.left, 1)
    terms.update(terms_of(function, node.comparisons[0].comparator, -1))
    left = {atom: count for atom, count in terms.items() if count}
    tiles = [atom for atom in left if atom[0] == "arange"]
    sizes = [atom for atom, count in left.items() if atom[0] in ("size", "number") and count == -1]
    places = [atom for atom in left if atom[0] in ("program", "loop")]
    if sorted(left.values()) != [-1, 1, 1] or not (len(tiles) == len(sizes) == len(places) == 1):
        return None
    tile, size, place = tiles[0][1], sizes[0][1], places[0]
    if place[0] == "program":
        axis, _, step = place[1].partition("*")
        return Bound(node, size, tile, int(axis)) if step == tile else None
    _, _, steps = place[1].partition(",")
    return Bound(node, size, tile, None) if steps == f"0,{size},{tile}" else None


def terms_of(function: Function, node: cst.BaseExpression, sign: int, depth: int = 0) -> Counter[tuple[str, str]]:
    """Return the terms of a sum, with how often each is added: a kind and a text.

    Names stand for what they are assigned, through at most `DEPTH` of them: sums of sums double at each.
    """
    if isinstance(node, cst.Subscript):
        return terms_of(function, node.value, sign, depth)
    if (inner := _converted(node)) is not None:
        return terms_of(function, inner, sign, depth)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add | cst.Subtract):
        found = terms_of(function, node.left, sign, depth)
        found.update(terms_of(function, node.right, sign if isinstance(node.operator, cst.Add) else -sign, depth))
        return found
    value = function.value_of(node.value) if isinstance(node, cst.Name) and depth < DEPTH else None
    if value is not None and isinstance(node, cst.Name) and _loop(function, node.value) is None:
        return terms_of(function, value, sign, depth + 1)
    return Counter({_atom(function, node): sign})


def _converted(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return x of `x.to(type)`."""
    is_to = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "to"
    return node.func.value if is_to else None  # type: ignore[attr-defined]


def _atom(function: Function, node: cst.BaseExpression) -> tuple[str, str]:
    lanes = match("tl.arange(0, q_width)", node)
    if lanes is not None and lanes["width"].isidentifier():
        return "arange", lanes["width"]
    if isinstance(node, cst.Integer):
        return "number", node.value
    if (sides := factors(node)) is not None:
        axis = _axis(_converted(sides[0]) or sides[0])
        if axis is not None and isinstance(sides[1], cst.Name):
            return "program", f"{axis}*{sides[1].value}"
    if isinstance(node, cst.Name):
        loop = _loop(function, node.value)
        if loop is not None:
            return "loop", f"{node.value},{loop}"
        if function.is_fixed(node.value):
            return "size", node.value
    return "other", code(node)


def _axis(node: cst.BaseExpression) -> int | None:
    """Return the grid axis of a node that is a program's number, directly or in a grouped order."""
    found = match("tl.program_id(q_axis)", node) or {}
    if found.get("axis", "").isdigit():
        return int(found["axis"])
    return GROUPED.index(code(node)) if code(node) in GROUPED else None


def _loop(function: Function, name: str) -> str | None:
    """Return start, stop and step of all loops over a name, if they share them; sizes through their names."""
    loops = [loop for loop in function.loops if isinstance(loop.target, cst.Name) and loop.target.value == name]
    if name in function.assignments or name in function.updates:
        return None
    found = {_range(function, loop.iter) for loop in loops}
    return found.pop() if len(found) == 1 else None


def _range(function: Function, call: cst.BaseExpression) -> str | None:
    if not isinstance(call, cst.Call) or not matches(call, "range(q__)", "tl.range(q__)"):
        return None
    plain = [arg.value for arg in call.args if arg.keyword is None]
    return ",".join(function.literal(item) or code(item) for item in plain) if len(plain) == 3 else None


def only_masks(function: Function, node: cst.Comparison) -> bool:
    """Return whether a comparison is part of a mask, or of a name that only masks use unchanged."""
    masks = [argument(call, "mask", 1) for call in function.loads] + [
        argument(call, "mask", 2) for call in function.stores
    ]
    whole = [mask for mask in masks if mask is not None]
    if any(_joins(mask, node) for mask in whole):
        return True
    names = [name for name, values in function.assignments.items() if any(_joins(value, node) for value in values)]
    if len(names) != 1 or function.value_of(names[0]) is None:
        return False
    uses = function.uses(names[0])
    return len(uses) - 1 == sum(_joins(mask, use) for mask in whole for use in uses)


def _joins(mask: cst.BaseExpression, part: cst.CSTNode) -> bool:
    return any(joined_part is part for joined_part in joined_parts(mask))


def unmasked_where_whole(node: cst.FunctionDef, block: str, extent: str, flag: str) -> cst.FunctionDef | None:
    """Return a straight function with a `tl.constexpr` that says whether `extent` is `block`; if it is, no mask asks.

    None where no mask compares the lanes of the block with the extent.
    """
    function = Function(node)
    values = ValueNumbers()
    lanes = values.of(f"tl.arange(0, {block})")
    edits: dict[cst.CSTNode, Edit] = {}
    for statement in body_of(node):
        for comparison in find_all(statement, cst.Comparison):
            left, right = comparison.left, comparison.comparisons[0].comparator
            if not matches(comparison, _LESS):
                continue
            is_end = values.of(right) == values.of(extent) and _lanes(values, values.of(left)) == lanes
            if is_end and only_masks(function, comparison):
                edits[comparison] = unless(flag)
        values.run(statement)
    return with_parameters([], [flag])(edited(node, edits)) if edits else None


def unless(flag: str) -> Edit:
    """Return an edit that makes a comparison true if a compile-time flag is set."""
    left, right = [cst.LeftParen()], [cst.RightParen()]
    return lambda node: cst.IfExp(cst.Name(flag), cst.Name("True"), bare(node), left, right)


def _lanes(values: ValueNumbers, number: int) -> int:
    """Return a value without the axes that `[:, None]` adds to it."""
    kind, *rest = values.key(number)
    return _lanes(values, rest[0]) if kind == "Subscript" and isinstance(rest[0], Part) else number
