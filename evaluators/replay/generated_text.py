"""Generated C and CUDA, read as a compiler reads them: what only looks like a comment or a text is refused."""

from __future__ import annotations

import re

from .values import UnplannableCallError

JOINING = ("\\", "%:", "<:", ":>", "<%", "%>", "??")
"""Character sequences that join lines or spell punctuation otherwise (digraphs, trigraphs)."""
_TEXT = r'"(?:\\[^\n]|[^"\\\n])*"'
_TEXT_OR_COMMENT = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(.*?)\s*$", re.MULTILINE)


def body_of(source: str, directives: re.Pattern[str]) -> str:
    """Return generated C without comments and directives, and with empty texts.

    Raises `UnplannableCallError` for a directive that does not match, and for characters that would hide code from a
    reader.
    """
    body = _TEXT_OR_COMMENT.sub(lambda found: found[1] or " ", source)
    for directive in _DIRECTIVE.findall(body):
        if not directives.fullmatch(directive):
            raise UnplannableCallError(f"'#{directive}'")
    body = _DIRECTIVE.sub(" ", body).replace('extern "C"', " ")
    body = re.sub(rf"(\w?){_TEXT}", lambda found: "R'" if found[1] else '""', body)  # a raw text ends elsewhere
    for mark in ("#", "'", *JOINING):
        if mark in body:
            raise UnplannableCallError(f"the character {mark}")
    if not source.isascii() or body.replace('""', "").count('"'):
        raise UnplannableCallError("characters that are not C's")
    return body
