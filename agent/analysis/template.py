"""Matches source against templates: text in which names that begin with `q_` stand for any expression.

    match("q_acc[q_i] += q_value", node) -> {"acc": "total", "i": "0", "value": "x[j]"} or None
    matches(node, "tl.max(q__)")  # with any further arguments

A placeholder that occurs twice must stand for the same expression; `q__` at the end of arguments, elements or
statements stands for any more of them. Spaces, brackets and comments do not count.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import libcst as cst

from .source import canonical, code, expression

PLACEHOLDER, REST = "q_", "q__"
_LAYOUT = {"lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "comma", "semicolon", "equal", "dot", "indent"}
_LAYOUT |= {"header", "footer", "leading_lines", "trailing_whitespace", "first_colon", "second_colon"}


def match(template: str, node: cst.CSTNode, known: Mapping[str, str] | None = None) -> dict[str, str] | None:
    """Return what the placeholders of a statement's or an expression's template stand for, None where it differs.

    `known` fixes some of them beforehand: names that come from a kernel, which may begin with `q_` too.
    """
    found = _found(template, node, known or {})
    return None if found is None else {name: canonical(code(part)) for name, part in found.items()}


def matches(node: cst.CSTNode | None, *templates: str, **known: str) -> bool:
    """Return whether a node matches one of the templates."""
    return node is not None and any(_found(template, node, known) is not None for template in templates)


def _found(template: str, node: cst.CSTNode, known: Mapping[str, str]) -> dict[str, cst.CSTNode] | None:
    found: dict[str, cst.CSTNode] = {name: expression(text) for name, text in known.items()}
    return found if _same(_parsed(template), _bare(node), found) else None


@functools.lru_cache(maxsize=4096)
def _parsed(template: str) -> cst.CSTNode:
    return _bare(cst.parse_module(template.strip()).body[0])


def _bare(node: cst.CSTNode) -> cst.CSTNode:
    """Return what a line of one simple statement holds, and of an expression's statement the expression."""
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        node = node.body[0]
    return node.value if isinstance(node, cst.Expr) else node


def _same(template: object, node: object, found: dict[str, cst.CSTNode] | None) -> bool:
    """Return whether a node matches; without `found`, whether both are the same."""
    if isinstance(template, cst.Name) and template.value.startswith(PLACEHOLDER) and found is not None:
        if not isinstance(node, cst.BaseExpression):
            return False
        name = template.value.removeprefix(PLACEHOLDER)
        return _same(found.setdefault(name, node), node, None)
    if isinstance(template, cst.BaseSuite) and isinstance(node, cst.BaseSuite):
        return _same(_lines(template), _lines(node), found)
    if isinstance(template, cst.SimpleString) and isinstance(node, cst.SimpleString):
        return template.evaluated_value == node.evaluated_value
    if isinstance(template, cst.CSTNode):
        same = type(template) is type(node)
        return same and all(
            _same(getattr(template, name), getattr(node, name), found) for name in _meaning(type(template))
        )
    if isinstance(template, Sequence) and not isinstance(template, str):
        if not isinstance(node, Sequence):
            return False
        if template and found is not None and _is_rest(template[-1]):
            template, node = template[:-1], node[: len(template) - 1]
        return len(template) == len(node) and all(map(_same, template, node, [found] * len(node)))
    return template == node


def _is_rest(node: object) -> bool:
    value = getattr(node, "value", None)
    return (isinstance(value, cst.Name) and value.value == REST) or (isinstance(node, cst.Name) and node.value == REST)


def _lines(block: cst.BaseSuite) -> list[cst.CSTNode]:
    """Return the statements of a block, or of what stands behind a colon."""
    parts = (line.body if isinstance(line, cst.SimpleStatementLine) else [line] for line in block.body)
    return [_bare(part) for several in parts for part in several]


@functools.cache
def _meaning(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Return the fields of a node that say something; the others are its layout."""
    names = kind.__dataclass_fields__
    return tuple(name for name in names if name not in _LAYOUT and not name.startswith(("whitespace", "lines_after")))
