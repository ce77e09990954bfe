"""Reads and writes Python source on its concrete syntax tree; text that nothing touches stays byte for byte."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import libcst as cst

from ...core import PythonKernel
from ...core.syntax_tree import expression_tree
from .applicability import NotApplicableError
from .tree import Edit, Expression, Statement, edited, find_all, nodes_in, plain_names

S = TypeVar("S", bound=cst.CSTNode)


def expression(text: str) -> Expression:
    """Parse one expression. Raises libcst.ParserSyntaxError."""
    return cst.parse_expression(text)


def statements(text: str) -> list[Statement]:
    """Parse source text into its statements; a comment before the first belongs to it, not to a module's header."""
    return list(cst.parse_module(f"pass\n{text}").body[1:])


def tree_and_names(kernel: PythonKernel) -> tuple[cst.Module, set[str]]:
    """Return the syntax tree and all names that it uses.

    Raises NotApplicableError for syntax that libcst does not know.
    """
    try:
        module, found = _parsed(kernel.source)
    except cst.ParserSyntaxError as error:
        raise NotApplicableError(f"libcst cannot read line {error.raw_line}") from None
    return module, set(found)


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> tuple[cst.Module, frozenset[str]]:
    """Trees do not change, and every rule reads the same kernel's."""
    module = cst.parse_module(source)
    return module, frozenset(names(module))


def code(node: cst.CSTNode) -> str:
    """Return the text of a node; an expression becomes one line without comments."""
    text = cst.Module(body=[]).code_for_node(node)
    if not isinstance(node, Expression):
        return text
    if "#" in text or "\\" in text:
        text = cst.Module(body=[]).code_for_node(edited(node, dict.fromkeys(nodes_in(node), _on_one_line)))
    return " ".join(text.split())


def _on_one_line(node: cst.CSTNode) -> cst.CSTNode:
    """Remove a comment, or the backslash of a continued line: neither may stand in the middle of a line."""
    if isinstance(node, cst.TrailingWhitespace | cst.EmptyLine):
        return node.with_changes(comment=None)
    if isinstance(node, cst.SimpleWhitespace):
        return node.with_changes(value=re.sub(r"\\\r?\n", " ", node.value))
    return node


def canonical(text: str) -> str:
    """Return an expression as Python itself writes it: the same, whatever spaces, brackets and quotes it had."""
    return ast.unparse(expression_tree(text))


def names(*nodes: cst.CSTNode) -> set[str]:
    """Return every plain name in nodes."""
    return {name.value for node in nodes for name in plain_names(node)}


def spells(tree: cst.CSTNode, pattern: str) -> bool:
    """Return whether a name, an attribute or a text in quotes has a pattern as a whole; comments do not count."""
    texts = [str(text.evaluated_value) for text in find_all(tree, cst.SimpleString)]
    return any(re.fullmatch(pattern, word) for word in [*texts, *(name.value for name in find_all(tree, cst.Name))])


def put(text: str) -> Edit:
    """Return an edit that puts an expression in the place of another."""
    return lambda _: expression(text)


def substitute(node: S, values: Mapping[str, str]) -> S:
    """Replace names by expressions, in parentheses if needed."""
    new = {name: _bracketed(expression(text)) for name, text in values.items()}
    return edited(node, {plain: lambda old: new[old.value] for plain in plain_names(node) if plain.value in new})


def replace_expression(node: S, old: str, new: str) -> S:
    """Replace every expression whose text is `old` by `new`."""
    replacement = _bracketed(expression(new))
    same = [
        expression
        for expression in nodes_in(node)
        if isinstance(expression, Expression) and code(bare(expression)) == old
    ]
    return edited(node, {expression: lambda _: replacement for expression in same})


def operand(text: str) -> str:
    """Return the text of an expression as a factor, in parentheses if needed."""
    return code(_bracketed(expression(text)))


def _bracketed(node: Expression) -> Expression:
    plain = isinstance(node, cst.Name | cst.Integer | cst.Float | cst.Subscript | cst.Call | cst.Attribute)
    return node if plain else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def bare(node: S) -> S:
    """Return an expression without its outer brackets."""
    return node.with_changes(lpar=[], rpar=[]) if hasattr(node, "lpar") else node


def fresh(wanted: str, taken: set[str]) -> str:
    """Return `wanted`, or the first free name of `wanted_2`, `wanted_3`, ..."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def insert_before_definitions(module: cst.Module, text: str, apart: bool = True) -> cst.Module:
    """Insert statements before the first class or function of a module; after an empty line, unless not `apart`."""
    is_definition = [isinstance(s, cst.ClassDef | cst.FunctionDef) for s in module.body]
    position = is_definition.index(True) if any(is_definition) else len(is_definition)
    new: list[Any] = statements(text.lstrip())
    if apart:
        new[0] = new[0].with_changes(leading_lines=[cst.EmptyLine(), *new[0].leading_lines])
    return module.with_changes(body=[*module.body[:position], *new, *module.body[position:]])
