"""Loop-invariant code motion: compute a value once before a loop instead of in every step."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from ...analysis.source import bare, code, expression, names, replace_expression, spells, statements
from ...analysis.tilelang import (
    EXPENSIVE,
    Rewriting,
    TileLangLoop,
    accesses,
    cpu_tilelang,
    make_loop,
    nest_of,
    rewrite_kernels,
)
from ...analysis.tree import Statement, calls_in, edited, find_all, plain_targets
from ..rule import Change, NotApplicableError, Rewritten, require, rule

OTHER_FLOATS = "float16|bfloat16|float64"
"""Hoisted values are kept in fp32, so a kernel with other float types is left alone."""
_NONE = "no loop computes a root, an exponential or a divisor anew that does not change"


@rule("compute", "streams", cpu_tilelang).because(
    "roots and divisions cost tens of cycles and are not vectorized as cheaply as a product"
)
def licm(module: cst.Module, change: Change) -> Rewritten:
    """Hoist square roots, exponentials and divisors that do not change in a loop, or in a nest's outer loops.

    `for c: for p: y[c, p] = x[c, p] / T.sqrt(s[p])` computes `1 / T.sqrt(s[p])` once per p instead of once
    per c and p. The expression may read nothing that the nest writes.
    """
    require(not spells(module, OTHER_FLOATS), "the kernel has floats that are not fp32")

    def rewrite(statement: Statement) -> Rewriting[str]:
        text, divides, used = _invariant(nest_of(statement))
        return text, _hoisted(statement, text, divides, used, change.fresh("hoisted"))

    done = rewrite_kernels(change, rewrite, _NONE)
    return change.rewritten(f"computed {', '.join(dict.fromkeys(done))} once, before the loop that uses it")


def _invariant(nest: Sequence[TileLangLoop]) -> tuple[str, bool, list[tuple[str, str]]]:
    """Return an expression to hoist, whether it is a divisor, and the loops (variable, extent) that it depends on."""
    require(nest and not any(isinstance(s, cst.BaseCompoundStatement) for s in nest[-1].body), _NONE)
    loops = [pair for loop in nest for pair in zip(loop.variables, loop.extents, strict=True)]
    variables = {variable for variable, _ in loops}
    body = cst.IndentedBlock(body=list(nest[-1].body))
    written = {access.buffer for access in accesses(body) if access.write}
    assigned = plain_targets(*nest[-1].body)
    # Divisors, then calls of expensive functions; longest first.
    candidates = [(code(bare(node.right)), True) for node in _divisions(body)]
    candidates += [(code(call), False) for call in calls_in(body, *EXPENSIVE)]
    for text, divides in sorted(dict.fromkeys(candidates), key=lambda item: -len(item[0])):
        node = cst.parse_expression(text)
        used = [(v, e) for v, e in loops if v in names(node)]
        reads_local_memory = bool(accesses(node)) or bool(calls_in(node, *EXPENSIVE))
        if not reads_local_memory or names(node) & (written | assigned):
            continue
        # It does not depend on an outer loop.
        if len(used) < len(variables) and (not used or loops.index(used[0]) > 0):
            return text, divides, used
    raise NotApplicableError(_NONE)


def _divisions(node: cst.CSTNode) -> list[cst.BinaryOperation]:
    return find_all(node, cst.BinaryOperation, m.BinaryOperation(operator=m.Divide()))


def _hoisted(statement: Statement, text: str, divides: bool, used: list[tuple[str, str]], name: str) -> list[Statement]:
    index = ", ".join(variable for variable, _ in used) or "0"
    shape = f"({', '.join(extent for _, extent in used) or '1'},)"
    value = f"1.0 / ({text})" if divides else text
    hoisted = f"{name}[{index}]"
    alloc, store = statements(f'{name} = T.alloc_local({shape}, "float32")\n{hoisted} = {value}\n')
    fill = make_loop([v for v, _ in used], [e for _, e in used], [store]) if used else store
    if not divides:
        return [alloc, fill, replace_expression(statement, text, hoisted)]
    product = {"operator": cst.Multiply(), "right": expression(hoisted)}
    divisions = [division for division in _divisions(statement) if code(bare(division.right)) == text]
    return [
        alloc,
        fill,
        edited(statement, {division: lambda old: old.with_changes(**product) for division in divisions}),
    ]
