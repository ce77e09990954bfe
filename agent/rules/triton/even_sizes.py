"""No masks where the tiles divide the sizes."""

from __future__ import annotations

import libcst as cst

from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import Edit
from ...analysis.source import bare, code, operand
from ...analysis.triton import Launch, TritonKernel, bounds_of
from ..rule import rule


@rule(
    "even-sizes",
    category="memory",
    work="both",
    why="a load without a mask needs no comparisons and no registers for them, and is as wide as its alignment allows",
    reads=TritonKernel.read,
)
def even_sizes(kernel: TritonKernel, change: Change) -> Rewritten:
    """The launch says whether a size is a multiple of its tile; if it is, the function leaves that part of masks out.

    A part is `index < size`, with an index of a loop from 0 to the size in steps of a tile, or of an axis of the grid
    that is `triton.cdiv` of size and tile. Results are the same at all sizes. Needs a function launched at one place,
    whose sizes are parameters, or numbers, that nothing assigns.
    """
    change.each(kernel.launched_once(), _without_masks)
    return change.rewritten("left out masks where tiles divide the sizes")


def _without_masks(launch: Launch, change: Change) -> None:
    bounds = list(bounds_of(launch))
    require(bounds, "no mask has a part `index < size` that a tile can divide")
    names: dict[tuple[str, str], str] = {}
    flags: dict[str, str] = {}
    for bound in bounds:
        key = bound.size, bound.tile
        if key not in names:
            named = bound.tile.removeprefix("BLOCK_") if bound.size.isdigit() else bound.size.upper()
            names[key] = change.fresh(f"EVEN_{named}")
            size = bound.size if bound.size.isdigit() else code(launch.arguments[bound.size])
            flags[names[key]] = f"{operand(size)} % {code(launch.arguments[bound.tile])} == 0"
        change.edit(bound.node, _unless(names[key]))
    change.add_parameters(launch.function.node, constants=flags)
    change.add_arguments(launch.node, flags)


def _unless(flag: str) -> Edit:
    """Return an edit that makes a comparison true where a flag is set, which the compiler knows."""

    def make(node: cst.CSTNode) -> cst.CSTNode:
        comparison = cst.ensure_type(bare(node), cst.Comparison)
        whole = cst.IfExp(test=cst.Name(flag), body=cst.Name("True"), orelse=comparison)
        return whole.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

    return make
