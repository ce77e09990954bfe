"""Loop-invariant code motion: compute a value once before a loop instead of in every step."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.search import find_all
from ...analysis.source import Statement, bare, code, names, replace_expression, statements
from ...analysis.tilelang import EXPENSIVE, Loop, accesses, cpu_tilelang, make_loop, nest_of, rewrite_kernels
from ..rule import rule

OTHER_FLOATS = re.compile(r"[\"'](float16|bfloat16|float64)[\"']")
"""Hoisted values are kept in fp32, so a kernel with other float types is left alone."""


@rule(
    "licm",
    category="compute",
    work="streams",
    why="roots and divisions cost tens of cycles and are not vectorized as cheaply as a product",
    reads=cpu_tilelang,
)
def licm(module: cst.Module, change: Change) -> Rewritten:
    """Hoist square roots, exponentials and divisors that do not change in a loop, or in a nest's outer loops.

    `for c: for p: y[c, p] = x[c, p] / T.sqrt(s[p])` computes `1 / T.sqrt(s[p])` once per p instead of once
    per c and p. The expression may read nothing that the nest writes.
    """
    require(not OTHER_FLOATS.search(change.kernel.source), "the kernel has floats that are not fp32")
    done: list[str] = []

    def rewrite(statement: Statement, after: Sequence[Statement]) -> Sequence[Statement] | None:
        nest = nest_of(statement)
        found = _invariant(nest)
        if found is None:
            return None
        text, divides, used = found
        done.append(text)
        return _hoisted(statement, nest, text, divides, used, change.fresh("hoisted"))

    change.module = rewrite_kernels(module, rewrite)
    require(done, "no loop computes a root, an exponential or a divisor anew that does not change")
    return change.rewritten(f"computed {', '.join(dict.fromkeys(done))} once, before the loop that uses it")


def _invariant(nest: Sequence[Loop]) -> tuple[str, bool, list[tuple[str, str]]] | None:
    """Return an expression to hoist, whether it is a divisor, and the loops (variable, extent) that it depends on."""
    if not nest or any(isinstance(s, cst.BaseCompoundStatement) for s in nest[-1].body):
        return None
    loops = [pair for loop in nest for pair in zip(loop.variables, loop.extents, strict=True)]
    variables = {variable for variable, _ in loops}
    body = cst.IndentedBlock(body=list(nest[-1].body))
    written = {access.buffer for access in accesses(body) if access.write}
    assigned = {name for s in nest[-1].body for name in _assigned_names(s)}
    for text, divides in _candidates(body):
        node = cst.parse_expression(text)
        used = [(v, e) for v, e in loops if v in names(node)]
        reads_local_memory = bool(accesses(node)) or any(part in text for part in EXPENSIVE)
        if not reads_local_memory or names(node) & (written | assigned):
            continue
        if len(used) < len(variables) and (
            not used or any(v not in dict(used) for v, _ in loops[: loops.index(used[0])])
        ):
            return text, divides, used
    return None


def _candidates(body: cst.CSTNode) -> list[tuple[str, bool]]:
    """Return divisors, then calls of expensive functions, as text; longest first."""
    divisors, calls = [], []
    for node in find_all(body, m.BinaryOperation(operator=m.Divide())):
        assert isinstance(node, cst.BinaryOperation)
        divisors.append(code(bare(node.right)))
    function = m.Attribute(m.Name("T"), m.OneOf(*(m.Name(name) for name in EXPENSIVE)))
    for node in find_all(body, m.Call(func=function)):
        calls.append(code(node))
    ordered = [(text, True) for text in divisors] + [(text, False) for text in calls]
    return sorted(dict.fromkeys(ordered), key=lambda item: -len(item[0]))


def _assigned_names(statement: Statement) -> set[str]:
    targets = find_all(statement, m.AssignTarget(target=m.Name()))
    return {
        node.target.value
        for node in targets
        if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Name)
    }


def _hoisted(
    statement: Statement,
    nest: Sequence[Loop],
    text: str,
    divides: bool,
    used: list[tuple[str, str]],
    name: str,
) -> list[Statement]:
    index = ", ".join(variable for variable, _ in used) or "0"
    shape = f"({', '.join(extent for _, extent in used) or '1'},)"
    value = f"1.0 / ({text})" if divides else text
    store = statements(f"{name}[{index}] = {value}\n")[0]
    fill = make_loop([v for v, _ in used], [e for _, e in used], [store]) if used else store
    new = (
        _divide_by(statement, text, f"{name}[{index}]")
        if divides
        else replace_expression(statement, text, f"{name}[{index}]")
    )
    assert isinstance(new, cst.BaseStatement)
    return [*statements(f'{name} = T.alloc_local({shape}, "float32")\n'), fill, new]


def _divide_by(node: cst.CSTNode, divisor: str, reciprocal: str) -> cst.CSTNode:
    """Replace every division by `divisor` with a product with `reciprocal`."""

    class Replace(cst.CSTTransformer):
        def leave_BinaryOperation(
            self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
        ) -> cst.BinaryOperation:
            if isinstance(original_node.operator, cst.Divide) and code(bare(original_node.right)) == divisor:
                return updated_node.with_changes(operator=cst.Multiply(), right=cst.parse_expression(reciprocal))
            return updated_node

    result = node.visit(Replace())
    assert isinstance(result, cst.CSTNode)
    return result
