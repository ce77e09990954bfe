"""Which comparisons of indices with a size always hold where tiles divide the size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import code
from .function import Function, argument, joined_parts
from .kernel import Launch
from .programs import GROUPED

_ARANGE = m.Call(func=m.Attribute(m.Name("tl"), m.Name("arange")), args=[m.Arg(m.Integer("0")), m.Arg(m.Name())])
_PROGRAM = m.Call(func=m.Attribute(m.Name("tl"), m.Name("program_id")), args=[m.Arg(m.Integer())])
_CONVERTED = m.Call(func=m.Attribute(attr=m.Name("to")))
DEPTH = 5
_LESS = m.Comparison(comparisons=[m.ComparisonTarget(operator=m.LessThan())])


@dataclass(frozen=True)
class Bound:
    """`index < size`, where the index is a tile's place plus an offset within the tile."""

    node: cst.Comparison
    size: str
    """A parameter, or a number."""
    tile: str
    """The parameter with the length of the tile."""
    axis: int | None
    """The axis of the grid that numbers the tiles; None where a loop from 0 to the size does."""


def bounds_of(launch: Launch) -> Iterator[Bound]:
    """Yield the comparisons in masks that always hold where the tile divides the size."""
    function = launch.function
    for node in find_all(function.node, _LESS):
        assert isinstance(node, cst.Comparison)
        bound = bound_of(function, node)
        if bound is not None and only_masks(function, node) and _covers(launch, bound):
            yield bound


def _covers(launch: Launch, bound: Bound) -> bool:
    """Return whether the tiles, if they divide the size, end with it: the grid has no more of them."""
    if bound.axis is None:
        return True
    host_size, host_tile = launch.arguments.get(bound.size), launch.arguments.get(bound.tile)
    size = bound.size if bound.size.isdigit() else host_size and code(host_size)
    axes = launch.grid or ()
    if bound.axis >= len(axes) or not size or host_tile is None:
        return False
    return code(axes[bound.axis]) == f"triton.cdiv({size}, {code(host_tile)})"


def bound_of(function: Function, node: cst.Comparison) -> Bound | None:
    """Return a comparison as a bound of a tile; None for any other."""
    if not m.matches(node, _LESS):
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
    if m.matches(node, _CONVERTED):
        of = cst.ensure_type(cst.ensure_type(node, cst.Call).func, cst.Attribute).value
        return terms_of(function, of, sign, depth)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add | cst.Subtract):
        found = terms_of(function, node.left, sign, depth)
        found.update(terms_of(function, node.right, sign if isinstance(node.operator, cst.Add) else -sign, depth))
        return found
    value = function.value_of(node.value) if isinstance(node, cst.Name) and depth < DEPTH else None
    if value is not None and isinstance(node, cst.Name) and _loop(function, node.value) is None:
        return terms_of(function, value, sign, depth + 1)
    return Counter({_atom(function, node): sign})


def _atom(function: Function, node: cst.BaseExpression) -> tuple[str, str]:
    if m.matches(node, _ARANGE):
        return "arange", code(cst.ensure_type(node, cst.Call).args[1].value)
    if isinstance(node, cst.Integer):
        return "number", node.value
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        one, other = node.left, node.right
        if m.matches(one, _CONVERTED):
            one = cst.ensure_type(cst.ensure_type(one, cst.Call).func, cst.Attribute).value
        axis = _axis(one)
        if axis is not None and isinstance(other, cst.Name):
            return "program", f"{axis}*{other.value}"
    if isinstance(node, cst.Name):
        loop = _loop(function, node.value)
        if loop is not None:
            return "loop", f"{node.value},{loop}"
        changed = node.value in function.assignments or node.value in function.updates
        if node.value in function.parameters and not changed:
            return "size", node.value
    return "other", code(node)


def _axis(node: cst.BaseExpression) -> int | None:
    """Return the axis of the grid whose number of a program a node is, as it is or in a grouped order."""
    if m.matches(node, _PROGRAM):
        return int(code(cst.ensure_type(node, cst.Call).args[0].value))
    return GROUPED.index(node.value) if isinstance(node, cst.Name) and node.value in GROUPED else None


def _loop(function: Function, name: str) -> str | None:
    """Return start, stop and step of all loops over a name, if they share them; sizes through their names."""
    loops = [loop for loop in function.loops if isinstance(loop.target, cst.Name) and loop.target.value == name]
    if name in function.assignments or name in function.updates:
        return None
    found = {_range(function, loop.iter) for loop in loops}
    return found.pop() if len(found) == 1 else None


def _range(function: Function, call: cst.BaseExpression) -> str | None:
    if not m.matches(call, m.Call(func=m.Name("range") | m.Attribute(m.Name("tl"), m.Name("range")))):
        return None
    plain = [arg.value for arg in cst.ensure_type(call, cst.Call).args if arg.keyword is None]
    return ",".join(function.literal(item) or code(item) for item in plain) if len(plain) == 3 else None


def only_masks(function: Function, node: cst.Comparison) -> bool:
    """Return whether a comparison stands in a mask, or in a name that only masks use as it is."""
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
