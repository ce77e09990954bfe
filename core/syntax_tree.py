"""Syntax trees of Python text, parsed by one thread at a time."""

from __future__ import annotations

import ast
import threading
from typing import Any

_PARSING = threading.RLock()
"""CPython counts the depth of all threads' trees in one place until 3.13: where two threads build trees at a time, one
of them ends with "SystemError: AST constructor recursion depth mismatch" (github.com/python/cpython/issues/106905)."""


def syntax_tree(source: str) -> ast.Module:
    """Parse a file; raises what `ast.parse` raises: SyntaxError, ValueError, RecursionError, MemoryError."""
    with _PARSING:
        return ast.parse(source)


def expression_tree(text: str) -> ast.expr:
    """Parse one expression; spaces and line ends around it are left out. Raises what `syntax_tree` raises."""
    with _PARSING:
        return ast.parse(text.strip(), mode="eval").body


def literal(text: str) -> Any:
    """Return the value of a literal: `ast.literal_eval`, with the same errors."""
    return ast.literal_eval(expression_tree(text))
