"""Walk the tiles of a product in an order in which adjacent tiles share operands in the cache."""

from __future__ import annotations

import libcst as cst

from ...analysis.source import statements
from ...analysis.template import matches
from ...analysis.tilelang import Rewriting, cuda_tilelang, rewrite_kernels
from ...analysis.tree import Statement, block_of, calls_in, with_block
from ..rule import Change, Rewritten, need_a, require, rule

PANELS = (1, 2, 4, 8, 16)


@rule("memory", "products", cuda_tilelang).because(
    "blocks that run together then read the same rows and columns, which stay in the L2 cache"
)
def swizzle_blocks(module: cst.Module, change: Change) -> Rewritten:
    """Add `T.use_swizzle` to TileLang kernels for CUDA with a grid of two axes and a loop over tiles.

    Only the order of the blocks changes, and blocks are independent.
    """
    require(not calls_in(module, "T.use_swizzle"), "the blocks are swizzled already")
    constant = change.constant("PANEL", PANELS, 4)
    none = "no kernel has a grid of two axes and a loop that copies tiles"

    def rewrite(statement: Statement) -> Rewriting[bool]:
        item = need_a(cst.With, statement, none).items[0].item
        require(matches(item, "T.Kernel(q__)"), none)
        axes = [arg for arg in cst.ensure_type(item, cst.Call).args if arg.keyword is None]
        copies = any(isinstance(s, cst.For) and calls_in(s, "T.copy") for s in block_of(statement))
        require(len(axes) == 2 and copies, none)
        new = [*statements(f"T.use_swizzle(panel_size={constant})\n"), *block_of(statement)]
        return True, [with_block(statement, new)]

    rewrite_kernels(change, rewrite, none)
    return change.rewritten("walked the tiles in panels")
