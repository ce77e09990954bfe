"""The entries of tables that an expression may take: `TABLE[n]`, `CONFIGS[name]["BLOCK"]`, `SETTINGS.get(n, 64)`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from ...core.scopes import Binding, Function, Scopes
from .modules import ModuleText

MOST_ENTRIES = 16
"""Maximum size of a table whose entries are parameters; in larger tables only the used entry is one."""
Found = tuple[ModuleText, ast.expr]
_NOT_KNOWN = object()


class Followed(Protocol):
    """Knowledge about names; `Sources` implements it."""

    def scopes(self, module: ModuleText) -> Scopes:
        """Return what names stand for in a module."""

    def imported(self, module: ModuleText, name: str) -> tuple[ModuleText, ast.Name] | None:
        """Return the module of an imported name, and a use of the name at the top level there."""

    def given(self, module: ModuleText, function: Function, name: str) -> list[Found]:
        """Return callers' arguments for a parameter, and its default if a caller gives none."""


class Entries:
    """Follows expressions into the tables of the modules: dicts, lists, tuples, later additions to them, and keyword
    arguments of the objects in them."""

    def __init__(self, sources: Followed) -> None:
        self._sources = sources

    def of(self, module: ModuleText, node: ast.expr, steps: int = 12) -> list[Found] | None:
        """Return the expressions that an expression may stand for; None if the texts do not tell all of them."""
        if not steps:
            return None
        match node:
            case ast.Name():
                return self._of_name(module, node, steps - 1)
            case ast.IfExp(body=body, orelse=orelse):
                return self._all(self.of(module, item, steps - 1) for item in (body, orelse))
            case ast.Subscript(value=table, slice=key):
                return self._taken(module, table, _literal(key), steps - 1)
            case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *default], keywords=[]):
                found = self._taken(module, table, _literal(key), steps - 1)
                return self._all([found, *(self.of(module, item, steps - 1) for item in default)])
            case ast.Attribute(value=holder, attr=name):
                return self._attribute(module, holder, name, steps - 1)
        return [(module, node)]

    def _all(self, parts: Any) -> list[Found] | None:
        found: dict[ast.expr, ModuleText] = {}
        for part in parts:
            if part is None:
                return None
            found |= {node: module for module, node in part}
        return [(module, node) for node, module in found.items()]

    def _of_name(self, module: ModuleText, node: ast.Name, steps: int) -> list[Found] | None:
        bindings = self._sources.scopes(module).find(node)
        if not bindings:
            return None
        if all(item.path is not None for item in bindings):
            there = self._sources.imported(module, node.id)
            return self._of_name(*there, steps) if there is not None and steps else None
        return self._all(self.of_binding(module, item, node.id, steps) for item in bindings)

    def of_binding(self, module: ModuleText, binding: Binding, name: str, steps: int = 12) -> list[Found] | None:
        """Return the same for one of the values of a name."""
        if binding.parameter_of is not None:
            given = self._sources.given(module, binding.parameter_of, name)
            return self._all(self.of(*item, steps) for item in given) if given else None
        if binding.value is None:
            return None
        found, parents = self.of(module, binding.value, steps), self._sources.scopes(module).parents
        statement = parents.get(binding.value)
        if isinstance(statement, ast.Tuple | ast.List) and isinstance(parents.get(statement), ast.Assign):
            return found  # the element of this name
        if isinstance(statement, ast.AnnAssign | ast.NamedExpr):
            return found
        if not isinstance(statement, ast.Assign):
            return None
        if any(isinstance(item, ast.Name) for item in statement.targets):
            return found
        # Of several names on the left, each has its element.
        for target in statement.targets:
            names = [getattr(item, "id", "") for item in getattr(target, "elts", ())]
            if name in names:
                return self._elements(found, partial(_element, names.index(name), len(names)), steps)
        return None

    def _elements(
        self, found: list[Found] | None, element: Callable[[ast.expr], ast.expr | None], steps: int
    ) -> list[Found] | None:
        parts = [(module, element(leaf)) for module, leaf in found or ()]
        if not parts or any(node is None for _, node in parts):
            return None
        return self._all(self.of(module, node, steps) for module, node in parts if node is not None)

    def _attribute(self, module: ModuleText, holder: ast.expr, name: str, steps: int) -> list[Found] | None:
        def value(leaf: ast.expr) -> ast.expr | None:
            words = leaf.keywords if isinstance(leaf, ast.Call) else []
            return next((word.value for word in words if word.arg == name), None)

        return self._elements(self.of(module, holder, steps), value, steps)

    def _taken(self, module: ModuleText, table: ast.expr, key: object, steps: int) -> list[Found] | None:
        """Return the entries under a key, or all entries if the key is unknown."""
        tables = self.of(module, table, steps)
        if not tables or not all(isinstance(leaf, ast.Dict | ast.List | ast.Tuple) for _, leaf in tables):
            return None
        found = [(there, *pair) for there, leaf in tables for pair in self._pairs(there, leaf)]
        exact = [(there, node) for there, known, node in found if known == key and key is not _NOT_KNOWN]
        chosen = exact or [(there, node) for there, _, node in found]
        return self._all(self.of(*item, steps) for item in chosen) if chosen else None

    def _pairs(self, module: ModuleText, table: ast.expr) -> Iterator[tuple[object, ast.expr]]:
        """Yield keys and values of a table, including those that the module adds later."""
        if isinstance(table, ast.Dict):
            yield from ((_literal(key), value) for key, value in zip(table.keys, table.values, strict=True))
        elif isinstance(table, ast.List | ast.Tuple):
            yield from enumerate(table.elts)
        scopes = self._sources.scopes(module)
        statement = scopes.parents.get(table)
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        names = {item.id for item in targets if isinstance(item, ast.Name)}
        if not names or statement not in module.tree.body:
            return
        for node in ast.walk(module.tree):
            match node:
                case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)], value=value):
                    if name in names:
                        yield _literal(key), value
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]):
                    if name in names:
                        yield _NOT_KNOWN, value


def _element(number: int, count: int, leaf: ast.expr) -> ast.expr | None:
    elements = leaf.elts if isinstance(leaf, ast.Tuple | ast.List) else []
    return elements[number] if len(elements) == count else None


def _literal(node: ast.expr | None) -> object:
    try:
        return _NOT_KNOWN if node is None else ast.literal_eval(node)
    except (ValueError, TypeError):
        return _NOT_KNOWN
