"""Matches source against templates: text in which names that begin with `q_` stand for any expression.

    match("q_acc[q_i] += q_value", node) -> {"acc": "total", "i": "0", "value": "x[j]"} or None

A placeholder that occurs twice must stand for the same expression. Spaces, brackets and comments do not count.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping

import libcst as cst

from ...core.syntax_tree import syntax_tree
from .source import code

PLACEHOLDER = "q_"


def match(template: str, node: cst.CSTNode, known: Mapping[str, str] | None = None) -> dict[str, str] | None:
    """Return what the placeholders of a statement's or an expression's template stand for, None where it differs.

    `known` fixes some of them beforehand.
    """
    found = {name: canonical(text) for name, text in (known or {}).items()}
    return found if _same(_parsed(template), _parsed(code(node)), found) else None


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.AST:
    (statement,) = syntax_tree(text.strip()).body
    return statement.value if isinstance(statement, ast.Expr) else statement


def canonical(text: str) -> str:
    """Return an expression as `match` writes those that it finds."""
    return ast.unparse(_parsed(text))


def _same(template: object, node: object, found: dict[str, str]) -> bool:
    if isinstance(template, ast.Name) and template.id.startswith(PLACEHOLDER):
        if not isinstance(node, ast.expr):
            return False
        text = ast.unparse(node)
        return found.setdefault(template.id.removeprefix(PLACEHOLDER), text) == text
    if isinstance(template, ast.AST):
        if type(template) is not type(node):
            return False
        return all(_same(getattr(template, field), getattr(node, field), found) for field in _fields(template))
    if isinstance(template, list):
        if not isinstance(node, list) or len(template) != len(node):
            return False
        return all(_same(one, other, found) for one, other in zip(template, node, strict=True))
    return template == node


def _fields(node: ast.AST) -> tuple[str, ...]:
    """What a node says; whether it is read or written follows from where it stands."""
    return tuple(field for field in node._fields if field not in ("ctx", "type_comment", "kind"))
