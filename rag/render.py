"""Examples as Markdown for a language model, whole or not at all."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from ..core import Hit, WorkedExample, source_lines
from ..core.quotation import quoted

CHARACTERS_PER_TOKEN = 3
"""A conservative estimate: English has about four characters a token, code fewer. A model's own tokenizer would be
exact, but most of them are downloaded."""


def tokens_of(text: str) -> int:
    """Return the approximate number of tokens of a text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def within(hits: Iterable[Hit], tokens: int) -> str:
    """Render the examples of these hits, best first, in at most `tokens` (as `tokens_of` estimates); '' if none fits.

    Each is rendered with both kernels, as a diff of all lines where that is shorter; where they do not fit, as a diff
    of what changed; then with the kernel after alone; then not at all. Code is never cut off: half a kernel teaches
    mistakes.
    """
    parts: list[str] = []
    for hit in hits:
        for text in _forms(hit.example):
            if tokens_of("\n\n".join([*parts, text])) <= tokens:
                parts.append(text)
                break
    return "\n\n".join(parts)


def _forms(example: WorkedExample) -> Iterator[str]:
    """An example at its fullest, then shorter and shorter."""
    head = _head(example)
    both = [head, "Before:", quoted(example.before, "python"), "After:", quoted(example.after, "python")]
    # What both kernels share is there once.
    whole = [head, "Both kernels, whole:", quoted(_diff(example, len(example.before)), "diff")]
    yield min("\n\n".join(both), "\n\n".join(whole), key=len)
    yield "\n\n".join([head, "The change:", quoted(_diff(example, 3), "diff")])
    yield "\n\n".join([head, "After:", quoted(example.after, "python")])


def _diff(example: WorkedExample, context: int) -> str:
    before, after = source_lines(example.before), source_lines(example.after)
    return "\n".join(difflib.unified_diff(before, after, "before.py", "after.py", n=context, lineterm=""))


def _head(example: WorkedExample) -> str:
    lines = [
        f"## {example.title} ({example.slug})",
        f"{example.language} for {example.target}, {example.operation}, {example.category} bottleneck; "
        f"techniques: {', '.join(example.techniques) or 'none named'}",
    ]
    lines.append(
        f"Measured: {example.gain}" if example.gain else "Checked for correctness; its gain is not measured yet."
    )
    return "\n\n".join([*lines, example.story])
