"""No masks where the tiles divide the sizes."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ....core import PythonKernel
from ...analysis.edit import Edit, Edited, edited, with_arguments, with_parameters
from ...analysis.source import code, fresh, operand
from ...analysis.triton.bounds import Bound, bounds_of
from ...analysis.triton.kernel import Launch, TritonFile
from ..rule import Machine, Rewritten, with_source


@dataclass(frozen=True)
class EvenSizes:
    """The launch says whether a size is a multiple of its tile; if it is, the function leaves that part of masks out.

    A part is `index < size`, with an index of a loop from 0 to the size in steps of a tile, or of an axis of the grid
    that is `triton.cdiv` of size and tile. Results are the same at all sizes. Needs a function launched at one place,
    whose sizes are parameters, or numbers, that nothing assigns.
    """

    name = "even-sizes"
    category = "memory"
    work = "both"
    why = "a load without a mask needs no comparisons and no registers for them, and is as wide as its alignment allows"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with masks that even sizes do without, or None where there is no such mask."""
        file = TritonFile.read(kernel)
        edits: dict[cst.CSTNode, Edit] = {}
        for launch in file.launched_once() if file else []:
            bounds = list(bounds_of(launch))
            if file is not None and bounds:
                _rewrite(file, launch, bounds, edits)
        if file is None or not edits:
            return None
        return Rewritten(with_source(kernel, edited(file.module, edits)), "left out masks where tiles divide the sizes")


def _rewrite(file: TritonFile, launch: Launch, bounds: list[Bound], edits: dict[cst.CSTNode, Edit]) -> None:
    """Add the edits of one launch and of its function."""
    names: dict[tuple[str, str], str] = {}
    flags: dict[str, str] = {}
    for bound in bounds:
        key = bound.size, bound.tile
        if key not in names:
            named = bound.tile.removeprefix("BLOCK_") if bound.size.isdigit() else bound.size.upper()
            names[key] = fresh(f"EVEN_{named}", file.taken)
            size = bound.size if bound.size.isdigit() else code(launch.arguments[bound.size])
            flags[names[key]] = f"{operand(size)} % {code(launch.arguments[bound.tile])} == 0"
        edits[bound.node] = _unless(names[key])
    edits[launch.function.node] = with_parameters(list(flags))
    edits[launch.node] = with_arguments(flags)


def _unless(flag: str) -> Edit:
    """Return an edit that makes a comparison true where a flag is set, which the compiler knows."""

    def make(node: cst.CSTNode) -> Edited:
        assert isinstance(node, cst.Comparison)
        bare = node.with_changes(lpar=[], rpar=[])
        whole = cst.IfExp(test=cst.Name(flag), body=cst.Name("True"), orelse=bare)
        return whole.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

    return make
