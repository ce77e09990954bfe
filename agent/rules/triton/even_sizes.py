"""Leave out masks where the tiles divide the sizes."""

from __future__ import annotations

from ...analysis.source import operand
from ...analysis.triton import Launch, TritonKernel, bounds_of, unless
from ..rule import Change, Rewritten, require, rule


@rule("memory", "both", TritonKernel.read).because(
    "a load without a mask needs no comparisons and no registers for them, and is as wide as its alignment allows"
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
            size = bound.size if bound.size.isdigit() else launch.texts[bound.size]
            flags[names[key]] = f"{operand(size)} % {launch.texts[bound.tile]} == 0"
        change.edit(bound.node, unless(names[key]))
    change.add_parameters(launch.function.node, constants=flags)
    change.add_arguments(launch.node, flags)
