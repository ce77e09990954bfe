"""Statements with other names in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import libcst as cst


class Rename(cst.CSTTransformer):
    """Writes a statement with the names of the flat source."""

    def __init__(
        self, texts: Mapping[cst.CSTNode, str], imports: set[cst.CSTNode], top: cst.CSTNode, own: Mapping[str, str]
    ) -> None:
        super().__init__()
        self._texts = texts
        self._imports = imports
        self._top = top
        self._own = own

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Replace what has another text, and drop the package's imports."""
        if original_node in self._imports:
            return cst.RemoveFromParent()
        if original_node in self._texts:
            new = cst.parse_expression(self._texts[original_node])
            return updated_node if self._same(original_node, new) else new
        found = super().on_leave(original_node, updated_node)
        if isinstance(found, cst.ImportAlias):
            return self._alias(found)
        if original_node is self._top and isinstance(found, cst.FunctionDef | cst.ClassDef):
            return found.with_changes(name=cst.Name(self._own.get(found.name.value, found.name.value)))
        return found

    def _alias(self, node: cst.ImportAlias) -> cst.ImportAlias:
        """Import what the statement defines, such as under a condition, by its new name."""
        bound = str(node.evaluated_alias or node.evaluated_name)
        if self._own.get(bound, bound) == bound:
            return node
        return node.with_changes(asname=cst.AsName(cst.Name(self._own[bound])))

    def _same(self, old: Any, new: Any) -> bool:
        return isinstance(old, cst.Name) and isinstance(new, cst.Name) and old.value == new.value


def import_order(line: str) -> tuple[bool, str]:
    """Return a key by which imports are sorted: whole modules first."""
    return line.startswith("from "), line.split()[1]


def with_imports(statement: cst.CSTNode, imports: Sequence[str]) -> cst.CSTNode:
    """Return a function with imports at its begin, after its docstring."""
    assert isinstance(statement, cst.FunctionDef)
    lines = list(statement.body.body)
    at = 1 if statement.get_docstring() is not None else 0
    lines[at:at] = [cst.parse_statement(text) for text in imports]
    return statement.with_changes(body=statement.body.with_changes(body=lines))
