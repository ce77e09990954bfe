"""Walk the tiles of a product in an order in which adjacent tiles share operands in the cache."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.source import code, statements
from ...analysis.tilelang import cuda_tilelang, rewrite_kernels
from ..rule import rule

PANELS = (1, 2, 4, 8, 16)


@rule(
    "swizzle-blocks",
    category="memory",
    work="products",
    why="blocks that run together then read the same rows and columns, which stay in the L2 cache",
    reads=cuda_tilelang,
)
def swizzle_blocks(module: cst.Module, change: Change) -> Rewritten:
    """Add `T.use_swizzle` to TileLang kernels for CUDA with a grid of two axes and a loop over tiles.

    Only the order of the blocks changes, and blocks are independent.
    """
    require("use_swizzle" not in change.kernel.source, "the blocks are swizzled already")
    constant = change.constant("PANEL", PANELS, 4)
    done: list[bool] = []

    def rewrite(statement: cst.BaseStatement, after: Sequence[cst.BaseStatement]) -> Sequence[cst.BaseStatement] | None:
        if not isinstance(statement, cst.With) or not isinstance(statement.body, cst.IndentedBlock):
            return None
        call = statement.items[0].item
        if not isinstance(call, cst.Call) or code(call.func) != "T.Kernel":
            return None
        axes = [arg for arg in call.args if arg.keyword is None]
        loops = [s for s in statement.body.body if isinstance(s, cst.For) and "T.copy" in code(s)]
        if len(axes) != 2 or not loops:
            return [statement]
        done.append(True)
        new = statements(f"T.use_swizzle(panel_size={constant})\n")
        return [statement.with_changes(body=statement.body.with_changes(body=[*new, *statement.body.body]))]

    change.module = rewrite_kernels(module, rewrite)
    require(done, "no kernel has a grid of two axes and a loop that copies tiles")
    return change.rewritten("walked the tiles in panels")
