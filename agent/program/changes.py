"""Describes the change of a turn on one line: functions, parameters, lines."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping

from ...core import Kernel, source_lines
from ...core.syntax_tree import syntax_tree

_DECLARATIONS = ("SEARCH_SPACE", "CONSTRAINTS", "CONFIGS")


def change_text(before: Kernel, after: Kernel) -> str:
    """Return 'new pack_kernel; changed ModelNew.forward; BLOCK_M 64 -> 128; +40 -12 lines'; empty for no change.

    Where a source is not Python, only the lines are counted.
    """
    parts = []
    try:
        old, new = _functions(before.source), _functions(after.source)
        constants = [_constants(item.source) for item in (before, after)]
    except SyntaxError:
        old, new, constants = {}, {}, [{}, {}]
    for word, names in (
        ("new", [name for name in new if name not in old]),
        ("changed", [name for name in new if old.get(name, new[name]) != new[name]]),
        ("removed", [name for name in old if name not in new]),
    ):
        if names:
            parts.append(f"{word} {', '.join(names)}")
    if values := list(_values(*constants)):
        parts.append(", ".join(values))
    added, removed = _counts(before.source, after.source)
    return "; ".join([*parts, f"+{added} -{removed} lines"]) if added or removed else ""


def _functions(source: str) -> dict[str, str]:
    """Return the text of each function of a file and method of its classes, without comments, by name."""
    found: dict[str, str] = {}
    for node in syntax_tree(source).body:
        inner = (
            [(f"{node.name}.", statement) for statement in node.body]
            if isinstance(node, ast.ClassDef)
            else [("", node)]
        )
        found |= {
            f"{prefix}{statement.name}": ast.unparse(statement)
            for prefix, statement in inner
            if isinstance(statement, ast.FunctionDef)
        }
    return found


def _constants(source: str) -> dict[str, str]:
    return {
        target.id: ast.unparse(node.value)
        for node in syntax_tree(source).body
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(target := node.targets[0], ast.Name)
        if target.id.isupper() and target.id not in _DECLARATIONS
    }


def _values(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name, value in new.items():
        if name not in old:
            yield f"{name} = {value}"
        elif old[name] != value:
            yield f"{name} {old[name]} -> {value}"


def _counts(before: str, after: str) -> tuple[int, int]:
    lines = list(difflib.unified_diff(source_lines(before), source_lines(after), n=0, lineterm=""))[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
