"""Constraints over parameters: Python expressions, of which only the harmless part is allowed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import CodeType
from typing import Any

from .errors import SpaceError

FUNCTIONS = {"min": min, "max": max, "abs": abs}

# `**` and `<<` are left out: 9**9**9 is a constraint that never answers.
_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd,
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn,
    ast.IfExp, ast.Call, ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.List,
)  # fmt: skip


class Expression:
    """A checked and compiled expression over parameter names.

    Raises `SpaceError` when the text is no expression or uses anything but arithmetic,
    comparisons, `and`/`or`/`not`, `min`, `max` and `abs`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        tree = _parse(text)
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        self.names = frozenset(names - called)
        self._code: CodeType = compile(tree, f"<constraint {text}>", "eval")

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The value for these parameters; a division by zero counts as False."""
        try:
            return eval(self._code, {"__builtins__": {}, **FUNCTIONS}, dict(values))
        except ZeroDivisionError:
            return False
        except NameError as error:
            raise SpaceError(f"constraint {self.text!r}: {error}; use the names of the parameters") from None
        except TypeError as error:
            raise SpaceError(f"constraint {self.text!r} does not fit its parameters: {error}") from None


def _parse(text: str) -> ast.Expression:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        raise SpaceError(
            f"constraint {text!r} is no expression; write one such as 'BLOCK_M * BLOCK_N <= 16384'"
        ) from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Call) and not _plain(node)):
            raise SpaceError(
                f"constraint {text!r}: {type(node).__name__} is not allowed; use arithmetic, comparisons, "
                "and/or/not, min, max and abs"
            )
    return tree


def _plain(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in FUNCTIONS and not call.keywords
