"""Lines of source text, counted as Python's tokenizer and `ast` count them."""

from __future__ import annotations

import re

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")


def source_lines(text: str, keepends: bool = False) -> list[str]:
    r"""The lines of `text`, which end at \n, \r\n or \r only.

    `str.splitlines` also splits at form feeds, U+2028 and others, which end no line of Python: line numbers of a
    syntax tree then point to the wrong place.
    """
    lines = _LINE.findall(text)
    return lines if keepends else [line.rstrip("\r\n") for line in lines]
