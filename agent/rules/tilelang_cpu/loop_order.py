"""Put the loop that walks memory with unit stride innermost."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ...analysis.source import expression, names
from ...analysis.tilelang import Rewriting, TileLangLoop, accesses, cpu_tilelang, make_loop, nest_of, rewrite_kernels
from ...analysis.tree import Statement
from ..rule import Change, Rewritten, need_a, require, rule

_NONE = "every perfect nest has its loop with unit stride innermost, or may not be reordered"


@rule("memory", "both", cpu_tilelang).because(
    "neighbouring elements share a cache line and a vector register only when the inner loop walks them"
)
def loop_order(module: cst.Module, change: Change) -> Rewritten:
    """`for i: for j: for k: c[i, j] += a[i, k] * b[k, j]` becomes i, k, j.

    Needs a perfect nest around one statement that writes one element, and extents that do not depend on each other.
    The sum may change its order, so any loop order is valid. The innermost variable becomes the one that stands
    alone in the last index of most accesses, the written one included.
    """

    def rewrite(statement: Statement) -> Rewriting[str]:
        nest = nest_of(statement)
        variable = _misplaced(nest)
        pairs = [pair for loop in nest for pair in zip(loop.variables, loop.extents, strict=True)]
        inner = next(pair for pair in pairs if pair[0] == variable)
        result: Statement = make_loop([inner[0]], [inner[1]], nest[-1].body)
        for name, extent in reversed([pair for pair in pairs if pair[0] != variable]):
            result = make_loop([name], [extent], [result])
        return variable, [result]

    done = rewrite_kernels(change, rewrite, _NONE)
    return change.rewritten(f"moved the loop over {', '.join(done)} innermost")


def _misplaced(nest: Sequence[TileLangLoop]) -> str:
    """Return the variable that should be innermost and is not. Raises NotApplicableError where a precondition fails."""
    variables = [v for loop in nest for v in loop.variables]
    require(len(variables) > 1 and not any(loop.kind == "unroll" for loop in nest), _NONE)
    touched = accesses(need_a(cst.SimpleStatementLine, nest[-1].only, _NONE))
    written = {(a.buffer, a.index) for a in touched if a.write}
    require(len(written) == 1 and not any(a.index == ("*",) for a in touched), _NONE)
    ((buffer, index),) = written
    require(all(a.index == index for a in touched if a.buffer == buffer), _NONE)
    require(not {*variables} & names(*(expression(extent) for loop in nest for extent in loop.extents)), _NONE)
    # The written element must walk with unit stride, and more accesses must gain than lose.
    gained = sum(a.index[-1] == index[-1] for a in touched)
    lost = sum(variables[-1] in names(expression(a.index[-1])) for a in touched)
    require(index[-1] in variables[:-1] and gained > lost, _NONE)
    return index[-1]
