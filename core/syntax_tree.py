"""Syntax trees of Python text, parsed by one thread at a time."""

from __future__ import annotations

import ast
import threading
from typing import Any

_PARSING = threading.RLock()
"""Until 3.13 CPython keeps the recursion depth of all threads in one counter.

If two threads build trees at once, one may
fail with "SystemError: AST constructor recursion depth mismatch" (github.com/python/cpython/issues/106905)."""


def syntax_tree(source: str) -> ast.Module:
    """Parse a file. Raises what `ast.parse` raises: SyntaxError, ValueError, RecursionError, MemoryError."""
    with _PARSING:
        return ast.parse(source)


def expression_tree(text: str) -> ast.expr:
    """Parse one expression without surrounding whitespace. Raises what `syntax_tree` raises."""
    with _PARSING:
        return ast.parse(text.strip(), mode="eval").body


def literal(text: str) -> Any:
    """Return the value of a literal, as `ast.literal_eval` does, with the same errors."""
    return ast.literal_eval(expression_tree(text))
