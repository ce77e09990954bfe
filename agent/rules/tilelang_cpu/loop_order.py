"""Put the loop that walks memory with unit stride innermost."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.source import Statement, names
from ...analysis.tilelang import Loop, accesses, cpu_tilelang, make_loop, nest_of, rewrite_kernels
from ..rule import rule


@rule(
    "loop-order",
    category="memory",
    work="both",
    why="neighbouring elements share a cache line and a vector register only when the inner loop walks them",
    reads=cpu_tilelang,
)
def loop_order(module: cst.Module, change: Change) -> Rewritten:
    """`for i: for j: for k: c[i, j] += a[i, k] * b[k, j]` becomes i, k, j.

    Needs a perfect nest around one statement that writes one element, and extents that do not depend on each other.
    The sum may change its order, so any loop order is valid. The innermost variable becomes the one that stands
    alone in the last index of most accesses, the written one included.
    """
    done: list[str] = []

    def rewrite(statement: Statement, after: Sequence[Statement]) -> Sequence[Statement] | None:
        nest = nest_of(statement)
        variable = _misplaced(nest)
        if variable is None:
            return None
        done.append(variable)
        pairs = [pair for loop in nest for pair in zip(loop.variables, loop.extents, strict=True)]
        inner = next(pair for pair in pairs if pair[0] == variable)
        result: Statement = make_loop([inner[0]], [inner[1]], nest[-1].body)
        for name, extent in reversed([pair for pair in pairs if pair[0] != variable]):
            result = make_loop([name], [extent], [result])
        return [result]

    change.module = rewrite_kernels(module, rewrite)
    require(done, "every perfect nest has its loop with unit stride innermost, or may not be reordered")
    return change.rewritten(f"moved the loop over {', '.join(done)} innermost")


def _misplaced(nest: Sequence[Loop]) -> str | None:
    """Return the variable that should be innermost and is not, if every precondition holds."""
    variables = [v for loop in nest for v in loop.variables]
    if len(variables) < 2 or nest[-1].only is None or any(loop.kind == "unroll" for loop in nest):
        return None
    body = nest[-1].only
    if isinstance(body, cst.BaseCompoundStatement):
        return None
    touched = accesses(body)
    written = {(a.buffer, a.index) for a in touched if a.write}
    if len(written) != 1 or any(a.index == ("*",) for a in touched):
        return None
    ((buffer, index),) = written
    if any(a.buffer == buffer and a.index != index for a in touched):
        return None
    if any(set(variables) & names(cst.parse_expression(e)) for loop in nest for e in loop.extents):
        return None
    if index[-1] not in variables or index[-1] == variables[-1]:
        return None
    # The written element must walk with unit stride, and more accesses must gain than lose.
    gain = sum(a.index[-1] == index[-1] for a in touched) - sum(variables[-1] in _names(a.index[-1]) for a in touched)
    return index[-1] if gain > 0 else None


def _names(text: str) -> set[str]:
    return names(cst.parse_expression(text))
