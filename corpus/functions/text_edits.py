"""Changes at places of a text that its syntax tree names."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...core.source_text import source_lines

Located = ast.expr | ast.stmt | ast.keyword
Edit = tuple[int, int, str]
"""Begin and end of a part in bytes, and its replacement."""


class Offsets:
    """Begin and end of a syntax tree's nodes, in bytes of UTF-8, in which `ast` counts columns."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self._starts = [0]
        for line in source_lines(text, keepends=True):
            self._starts.append(self._starts[-1] + len(line.encode()))

    def begin(self, node: Located) -> int:
        """Return where a node begins."""
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: Located) -> int:
        """Return where it ends."""
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def text(self, node: Located) -> str:
        """Return a node's text, without parentheses around it."""
        return self.data[self.begin(node) : self.end(node)].decode()

    def indent(self, node: Located) -> str | None:
        """Return the white space before a node on its line; None if there is other text."""
        before = self.data[self._starts[node.lineno - 1] : self.begin(node)].decode()
        return None if before.strip() else before


def edited(data: bytes, edits: Sequence[Edit]) -> str:
    """Return a text with other parts in the places of some, which do not overlap. Of several insertions at one place
    the first comes first.
    """
    numbered = sorted(enumerate(edits), key=lambda item: (item[1][0], item[1][1], item[0]), reverse=True)
    for _, (begin, end, new) in numbered:
        data = data[:begin] + new.encode() + data[end:]
    return data.decode()


def with_expressions(text: str, edits: Sequence[tuple[ast.expr, str]]) -> str:
    """Return a text with other expressions in the places of some."""
    offsets = Offsets(text)
    return edited(offsets.data, [(offsets.begin(node), offsets.end(node), new) for node, new in edits])
