"""Generated C and CUDA, read as a compiler reads them: what only looks like a comment or a text is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..languages.c_headers import VECTORS
from .values import UnplannableCall

TOKEN = re.compile(
    r"([A-Za-z_]\w*)|(0[xX][\da-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*|(\S)"
)  # a name, a number, or one other character
JOINING = ("\\", "%:", "<:", ":>", "<%", "%>", "??")
"""Of joined lines, and of other spellings of marks."""
_TEXT = r'"(?:\\[^\n]|[^"\\\n])*"'
_TEXT_OR_COMMENT = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(.*?)\s*$", re.MULTILINE)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TYPES = _words(
    """
    void bool char int long short float double signed unsigned half int8_t int16_t int32_t int64_t uint8_t uint16_t
    uint32_t uint64_t size_t
    """
)
FORBIDDEN = _words(
    """
    static extern asm volatile goto typedef union struct class template using namespace register thread_local auto
    decltype operator new delete throw try catch
    """
)
"""Words that generated C of a host has no use for."""


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


def is_type(token: str) -> bool:
    """Return whether a word of generated C is a type."""
    return token in _TYPES or VECTORS.fullmatch(token) is not None


def require_only_functions(name: str, tokens: Sequence[str]) -> None:
    """Outside of functions there are only functions: no variable outlives a call."""
    depth = 0
    statement: list[str] = []
    for token in tokens:
        if token == "{":
            if depth == 0 and not _is_function(statement):
                raise UnplannableCall(f"{name}: generated C with something else than functions")
            depth += 1
            statement = []
        elif token == "}":
            depth -= 1
            statement = []
        elif depth == 0:
            if token == ";" and statement and not _is_function(statement):
                raise UnplannableCall(f"{name}: generated C with a variable outside of a function")
            statement = [] if token == ";" else [*statement, token]


def _is_function(statement: Sequence[str]) -> bool:
    """Return whether this declares a function: a type, a name, and parameters that each begin with a type."""
    if "(" not in statement or statement[-1] != ")" or statement.count("(") != 1:
        return False
    opened = statement.index("(")
    if opened < 2 or is_type(statement[opened - 1]) or not re.match(r"[A-Za-z_]", statement[opened - 1]):
        return False
    if not all(is_type(one) or one in ("const", "*") for one in statement[: opened - 1]):
        return False
    begins = True
    for one in statement[opened + 1 : -1]:
        if begins and not (is_type(one) or one == "const"):
            return False
        if not (re.match(r"[A-Za-z_]", one) or one in ("*", ",")):
            return False
        begins = one == ","
    return True
