"""What kind of statement one is."""

from __future__ import annotations

import builtins
from collections.abc import Collection
from typing import Any

import libcst as cst
from libcst import matchers


def is_plain(statement: cst.CSTNode) -> bool:
    """Return whether this is only imports, or a docstring."""
    small = statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
    text = matchers.Expr(matchers.SimpleString())
    return all(isinstance(item, cst.Import | cst.ImportFrom) or matchers.matches(item, text) for item in small)


def unknown_types(statement: cst.CSTNode, free: Collection[str]) -> dict[cst.CSTNode, str]:
    """Return the annotations with names of `free` that Python does not know, as texts: `if TYPE_CHECKING` has them."""
    unknown = [name for name in free if not hasattr(builtins, name)]
    return {
        item: f'"{cst.Module([]).code_for_node(item)}"'
        for item in _types(statement)
        if any(matchers.findall(item, matchers.Name(name)) for name in unknown)
        and not isinstance(item, cst.SimpleString)
    }


def known_again(statement: cst.CSTNode, original: str) -> dict[cst.CSTNode, str]:
    """Return the annotations that `unknown_types` made texts of, as the original has them."""
    texts = [item for item in _types(statement) if isinstance(item, cst.SimpleString) and item.value not in original]
    return {text: str(text.evaluated_value) for text in texts}


def _types(statement: cst.CSTNode) -> list[cst.BaseExpression]:
    found = matchers.findall(statement, matchers.Annotation())
    return [cst.ensure_type(item, cst.Annotation).annotation for item in found]


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
