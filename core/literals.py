"""The names that a statement of source text assigns, and the values that stand there."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}
_MOST = 1 << 62
_LARGEST_EXPONENT = 64


def assigned_names(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a statement assigns, each with the expression of its value: one for each name.

    The value of `tl.constexpr(64)` is the 64.
    """
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target, value = node.target, node.value
    else:
        return
    if isinstance(target, ast.Name):
        yield target.id, _without_constexpr(value)
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        starred = any(isinstance(item, ast.Starred) for item in (*target.elts, *value.elts))
        for name, item in zip(target.elts, value.elts, strict=True):
            if isinstance(name, ast.Name) and not starred:
                yield name.id, _without_constexpr(item)


def literal_value(node: ast.expr) -> Any:
    """Return the value of a literal, or of arithmetic of whole numbers; raises `ValueError` or `TypeError` for others.

    `1 << 6` is 64.
    """
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = literal_value(node.left), literal_value(node.right)
        if type(left) is int and type(right) is int:
            return _computed(node.op, left, right)
    return ast.literal_eval(node)


def _computed(op: ast.operator, left: int, right: int) -> int:
    if isinstance(op, ast.LShift | ast.Pow) and not 0 <= right <= _LARGEST_EXPONENT:
        raise ValueError
    if isinstance(op, ast.FloorDiv) and right == 0:
        raise ValueError
    found = _ARITHMETIC[type(op)](left, right)
    if abs(found) > _MOST:
        raise ValueError
    return found


def _without_constexpr(node: ast.expr) -> ast.expr:
    """Return what is wrapped into `tl.constexpr(...)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "constexpr":
            return node.args[0]
    return node
