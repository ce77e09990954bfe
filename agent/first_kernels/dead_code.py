"""Removes dead code and needless parentheses from Inductor's kernels."""

from __future__ import annotations

import ast

import libcst as cst
import libcst.matchers as m

from ...core.syntax_tree import syntax_tree

_PURE = {"full", "arange", "zeros", "program_id", "cdiv", "to"}
"""Functions whose result alone counts."""


def tidied(source: str) -> str:
    """Return a file whose kernels assign to no name that they do not read, and have no needless parentheses."""
    module = cst.parse_module(source)
    body = [
        _tidied(module, statement).visit(_Plain())
        if isinstance(statement, cst.FunctionDef) and statement.decorators
        else statement
        for statement in module.body
    ]
    return module.with_changes(body=body).code


def _tidied(module: cst.Module, function: cst.FunctionDef) -> cst.FunctionDef:
    while unread := _unread(module.code_for_node(function)):
        changed = cst.ensure_type(function.visit(_Without(unread)), cst.FunctionDef)
        if changed.deep_equals(function):  # what is left has an effect, or is all of its block
            break
        function = changed  # what only those read is not read any more
    return function


def overridden(source: str, name: str) -> dict[int, str]:
    """Return the arguments of a function that it gives a number before it reads them, by their places."""
    function = next(
        item for item in syntax_tree(source).body if isinstance(item, ast.FunctionDef) and item.name == name
    )
    given = [argument.arg for argument in function.args.args]
    found = {}
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=int())) if target in given:
                found[given.index(target)] = target
            case _:
                break  # they stand at the top
    return found


def without_arguments(source: str, name: str, left_out: set[str]) -> str:
    """Return functions of which one no longer takes some of its arguments."""
    return cst.parse_module(source).visit(_WithoutArguments(name, left_out)).code


def _unread(function: str) -> set[str]:
    """Return the names that a function assigns to and does not read."""
    read: set[str] = set()
    assigned: set[str] = set()
    for node in ast.walk(syntax_tree(function)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.AugAssign(target=ast.Name(id=name)):
                read.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                assigned.add(name)
    return assigned - read


class _Without(cst.CSTTransformer):
    def __init__(self, unread: set[str]) -> None:
        self._unread = unread

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        match updated_node.body:
            case [
                cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value)
                | cst.AnnAssign(target=cst.Name(value=name), value=cst.BaseExpression() as value)
            ] if name in self._unread and _is_pure(value):
                return cst.RemoveFromParent()
        return updated_node

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated_node if updated_node.body else original_node


class _Plain(cst.CSTTransformer):
    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(lpar=[], rpar=[]) if updated_node.lpar else updated_node

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        value = updated_node.value
        if not value.lpar or m.findall(value, m.ParenthesizedWhitespace()):  # brackets let it go over lines
            return updated_node
        return updated_node.with_changes(value=value.with_changes(lpar=[], rpar=[]))

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:
        whole = m.SubscriptElement(m.Slice(lower=None, upper=None, step=None))
        return updated_node.value if m.matches(updated_node, m.Subscript(slice=[whole])) else updated_node


class _WithoutArguments(cst.CSTTransformer):
    def __init__(self, name: str, left_out: set[str]) -> None:
        self._name = name
        self._left_out = left_out

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        if updated_node.name.value != self._name:
            return updated_node
        kept = [parameter for parameter in updated_node.params.params if parameter.name.value not in self._left_out]
        return updated_node.with_changes(params=updated_node.params.with_changes(params=kept))


def _is_pure(value: cst.BaseExpression) -> bool:
    calls = [node for node in m.findall(value, m.Call()) if isinstance(node, cst.Call)]
    return all(isinstance(call.func, cst.Attribute) and call.func.attr.value in _PURE for call in calls)
