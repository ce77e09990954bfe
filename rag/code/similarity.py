"""When two kernels are the same, and when nearly."""

from __future__ import annotations

import ast
import re

from ...core.syntax_tree import syntax_tree

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d*)?|[^\s\w]")
_COMMENT = re.compile(r"#[^\n]*")
_SHINGLE = 3


def canonical(source: str) -> str:
    """The program without comments, docstrings and layout; of what cannot be read, the text without white space."""
    try:
        tree = syntax_tree(source)
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list):
                node.body = [s for s in body if not _is_text(s)]  # type: ignore[attr-defined]
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError):
        return " ".join(source.split())


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def shingles(source: str) -> frozenset[tuple[str, ...]]:
    """All runs of three tokens, without comments: what two texts share of these tells how near they are (Broder,
    'On the resemblance and containment of documents', 1997)."""
    tokens = _TOKEN.findall(_COMMENT.sub("", source))
    return frozenset(tuple(tokens[i : i + _SHINGLE]) for i in range(len(tokens) - _SHINGLE + 1))


def resemblance(first: frozenset[tuple[str, ...]], second: frozenset[tuple[str, ...]]) -> float:
    """The shared part of two sets, from 0 to 1."""
    shared = len(first & second)
    every = len(first) + len(second) - shared
    return shared / every if every else 1.0


def nearly_the_same(first: frozenset[tuple[str, ...]], second: frozenset[tuple[str, ...]], share: float) -> bool:
    """Whether the similarity of two sets reaches a threshold; sets whose sizes rule that out are not compared."""
    small, large = sorted((len(first), len(second)))
    return small >= share * large and resemblance(first, second) >= share
