"""Generated C and CUDA, read as a compiler reads them: what only looks like a comment or a text is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .values import UnplannableCall

TOKEN = re.compile(
    r"([A-Za-z_]\w*)|(0[xX][\da-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*|(\S)"
)  # a name, a number, or one other character
JOINING = ("\\", "%:", "<:", ":>", "<%", "%>", "??")
"""Of joined lines, and of other spellings of marks."""
_TEXT = r'"(?:\\[^\n]|[^"\\\n])*"'
_TEXT_OR_COMMENT = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(.*?)\s*$", re.MULTILINE)


def body_of(source: str, directives: re.Pattern[str]) -> str:
    """Return generated C without comments and directives, and with empty texts.

    Raises `UnplannableCall` for a directive that does not match, and for characters that would hide code from a reader.
    """
    body = _TEXT_OR_COMMENT.sub(lambda found: found[1] or " ", source)
    for directive in _DIRECTIVE.findall(body):
        if not directives.fullmatch(directive):
            raise UnplannableCall(f"'#{directive}'")
    body = _DIRECTIVE.sub(" ", body).replace('extern "C"', " ")
    body = re.sub(rf"(\w?){_TEXT}", lambda found: "R'" if found[1] else '""', body)  # a raw text ends elsewhere
    for mark in ("#", "'", *JOINING):
        if mark in body:
            raise UnplannableCall(f"the character {mark}")
    if not source.isascii() or body.replace('""', "").count('"'):
        raise UnplannableCall("characters that are not C's")
    return body


def tokens_of(body: str) -> list[str]:
    """Return the names, numbers and other characters of a text."""
    return [match[1] or match[2] or match[3] for match in TOKEN.finditer(body)]


def calls_through_pointer(tokens: Sequence[str], is_type: Callable[[str], bool]) -> bool:
    """Return whether anything but a name is called; casts are not calls."""
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token in "([":
            opened.append(at)
        elif token in ")]":
            start = opened.pop() if opened else 0
            if at + 1 < len(tokens) and tokens[at + 1] == "(":
                cast = all(is_type(one) or one in ("*", "const") for one in tokens[start + 1 : at])
                if token == "]" or not cast:  # `if (...) (...)` does not occur in generated code either
                    return True
    return False
