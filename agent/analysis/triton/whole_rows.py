"""Leaves out the masks of a function whose one block holds a row, where the row fills the block."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ..edit import Edit, edited, with_parameters
from ..search import find_all
from ..source import bare, code, expression
from .bounds import only_masks
from .function import Function
from .passes import body_of
from .values import Part, Values

_LESS = m.Comparison(comparisons=[m.ComparisonTarget(operator=m.LessThan())])


def unmasked_where_whole(node: cst.FunctionDef, block: str, extent: str, flag: str) -> cst.FunctionDef | None:
    """Return a straight function with a `tl.constexpr` that says whether `extent` is `block`; if it is, no mask asks.

    None where no mask compares the lanes of the block with the extent.
    """
    function = Function(node)
    values = Values()
    lanes = values.of(f"tl.arange(0, {block})")
    edits: dict[cst.CSTNode, Edit] = {}
    for statement in body_of(node):
        for match in find_all(statement, _LESS):
            comparison = cst.ensure_type(match, cst.Comparison)
            left, right = comparison.left, comparison.comparisons[0].comparator
            is_end = values.of(right) == values.of(extent) and _lanes(values, values.of(left)) == lanes
            if is_end and only_masks(function, comparison):
                edits[comparison] = _unless(flag)
        values.run(statement)
    if not edits:
        return None
    changed = edited(cst.Module(body=[node]), edits).body[0]
    added = with_parameters([flag])(changed)
    assert isinstance(added, cst.FunctionDef)
    return added


def _unless(flag: str) -> Edit:
    def make(node: cst.CSTNode) -> cst.CSTNode:
        return expression(f"(True if {flag} else {code(bare(node))})")

    return make


def _lanes(values: Values, number: int) -> int:
    """Return a value without the axes that `[:, None]` adds to it."""
    kind, *rest = values.key(number)
    return _lanes(values, rest[0]) if kind == "Subscript" and isinstance(rest[0], Part) else number
