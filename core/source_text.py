"""Lines of source text, counted as Python's tokenizer and `ast` count them, and the values that stand in it."""

from __future__ import annotations

import ast
import operator
import re
import tokenize
from collections.abc import Callable, Iterator
from typing import Any

BYTE_ORDER_MARK = "\ufeff"
"""Written by some editors at the start of a file. `ast.parse` rejects it in a string."""
TOO_DEEP = (
    "has an expression that is nested too deeply for Python to compile (each term of a sum is one level); "
    "split it, or write a loop"
)
"""End of an error message that starts with the file's name."""
_SEPARATORS = re.compile("[\f\v\x1c-\x1e\x85\u2028\u2029]")
"""Characters at which `str.splitlines` splits and Python's tokenizer does not."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}
_MOST = 1 << 62
_LARGEST_EXPONENT = 64


def source_lines(text: str, keepends: bool = False) -> list[str]:
    r"""Return the lines of `text`, which end at \n, \r\n or \r only.

    `str.splitlines` also splits at form feeds, U+2028 and others, which do not end a line of Python, so that line
    numbers of a syntax tree would be wrong.
    """
    lines = _LINE.findall(text)
    return lines if keepends else [line.rstrip("\r\n") for line in lines]


def without_separators(source: str) -> str:
    """Return Python source without form feeds and similar separators outside of strings.

    TileLang splits a function's source with `str.splitlines`, and would misread its indentation. Line numbers do not
    change. Text that is not Python is returned unchanged.
    """
    if not _SEPARATORS.search(source):
        return source
    lines = source_lines(source, keepends=True)
    try:
        strings = list(_strings(lines))
    except (tokenize.TokenError, SyntaxError):
        return source
    found = []
    for number, line in enumerate(lines, start=1):
        if not _SEPARATORS.search(line):
            found.append(line)
            continue
        # A form feed at the start of a line resets the indentation.
        blank = re.match(r"[ \t\f]*\f", line)
        start = blank.end() if blank and not _within(strings, number, 0) else 0
        found += [
            " " if _SEPARATORS.match(character) and not _within(strings, number, column) else character
            for column, character in enumerate(line[start:], start=start)
        ]
    return "".join(found)


Position = tuple[int, int]


def _strings(lines: list[str]) -> Iterator[tuple[Position, Position]]:
    """Yield start and end of string literals as (line, column)."""
    begun: list[Position] = []
    for token in tokenize.generate_tokens(iter(lines).__next__):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            yield token.start, token.end
        elif kind == "FSTRING_START":
            begun.append(token.start)
        elif kind == "FSTRING_END":
            yield begun.pop(), token.end


def _within(spans: list[tuple[Position, Position]], line: int, column: int) -> bool:
    return any(start <= (line, column) < end for start, end in spans)


def assigned_names(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a statement assigns, each with the expression of its value: one for each name.

    The value of `tl.constexpr(64)` is the 64.
    """
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target, value = node.target, node.value
    else:
        return
    if isinstance(target, ast.Name):
        yield target.id, _without_constexpr(value)
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        starred = any(isinstance(item, ast.Starred) for item in (*target.elts, *value.elts))
        for name, item in zip(target.elts, value.elts, strict=True):
            if isinstance(name, ast.Name) and not starred:
                yield name.id, _without_constexpr(item)


def literal_value(node: ast.expr) -> Any:
    """Return the value of a literal, or of arithmetic of integers; raises `ValueError` or `TypeError` for others.

    `1 << 6` is 64.
    """
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = literal_value(node.left), literal_value(node.right)
        if type(left) is int and type(right) is int:
            return _computed(node.op, left, right)
    return ast.literal_eval(node)


def _computed(op: ast.operator, left: int, right: int) -> int:
    if isinstance(op, ast.LShift | ast.Pow) and not 0 <= right <= _LARGEST_EXPONENT:
        raise ValueError
    if isinstance(op, ast.FloorDiv) and right == 0:
        raise ValueError
    found = _ARITHMETIC[type(op)](left, right)
    if abs(found) > _MOST:
        raise ValueError
    return found


def _without_constexpr(node: ast.expr) -> ast.expr:
    """Return what is wrapped into `tl.constexpr(...)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "constexpr":
            return node.args[0]
    return node
