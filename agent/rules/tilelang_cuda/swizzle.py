"""Walk the tiles of a product in an order in which adjacent tiles share operands in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import Parameter, PythonKernel, Target
from ....core.languages import TILELANG
from ...analysis.source import add_constant, code, fresh, rewrite_kernels, statements, tree_and_names
from ..rule import Machine, Rewritten, with_source

PANELS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Swizzle:
    """Add `T.use_swizzle` to TileLang kernels for CUDA with a grid of two axes and a loop over tiles.

    Only the order of the blocks changes, and blocks are independent.
    """

    name = "swizzle-blocks"
    category = "memory"
    work = "products"
    why = "blocks that run together then read the same rows and columns, which stay in the L2 cache"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with swizzled blocks, or None where it has no such grid."""
        if kernel.language != TILELANG or kernel.target is not Target.CUDA:
            return None
        if "use_swizzle" in kernel.source:
            return None
        module, taken = tree_and_names(kernel)
        constant = fresh("PANEL", taken)
        done: list[bool] = []

        def rewrite(
            statement: cst.BaseStatement, after: Sequence[cst.BaseStatement]
        ) -> Sequence[cst.BaseStatement] | None:
            if not isinstance(statement, cst.With) or not isinstance(statement.body, cst.IndentedBlock):
                return None
            call = statement.items[0].item
            if not m.matches(call, m.Call(func=m.Attribute(m.Name("T"), m.Name("Kernel")))):
                return None
            assert isinstance(call, cst.Call)
            axes = [arg for arg in call.args if arg.keyword is None]
            loops = [s for s in statement.body.body if isinstance(s, cst.For) and "T.copy" in code(s)]
            if len(axes) != 2 or not loops:
                return [statement]
            done.append(True)
            new = statements(f"T.use_swizzle(panel_size={constant})\n")
            return [statement.with_changes(body=statement.body.with_changes(body=[*new, *statement.body.body]))]

        module = rewrite_kernels(module, rewrite)
        if not done:
            return None
        module = add_constant(module, constant, 4)
        return Rewritten(with_source(kernel, module), "walked the tiles in panels", (Parameter(constant, PANELS, 4),))
