"""What kind of statement one is."""

from __future__ import annotations

from typing import Any

import libcst as cst
from libcst import matchers


def is_plain(statement: cst.CSTNode) -> bool:
    """Return whether this is only imports, or a docstring."""
    small = statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
    text = matchers.Expr(matchers.SimpleString())
    return all(isinstance(one, cst.Import | cst.ImportFrom) or matchers.matches(one, text) for one in small)


def changed_by(statement: cst.CSTNode) -> str | None:
    """Return the name of what a statement changes without defining it."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    node: Any = statement.body[0]
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        target: Any = node.targets[0].target
    elif isinstance(node, cst.AugAssign):
        target = node.target
    elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        target = node.value.func
    else:
        return None
    if isinstance(target, cst.Name):
        return target.value if isinstance(node, cst.AugAssign) else None
    while isinstance(target, cst.Attribute | cst.Subscript):
        target = target.value
    return target.value if isinstance(target, cst.Name) else None
