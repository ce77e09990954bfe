"""Forms of a kernel's source that are legal and unusual: a model may write any of them."""

from __future__ import annotations

import ast
import io
import random
import re
import tokenize
from collections.abc import Callable, Mapping

Form = Callable[[str, random.Random], str]
_OPEN, _CLOSE = "([{", ")]}"


def with_comments(source: str, chance: random.Random) -> str:
    """Put comments with brackets and quotes behind commas and opening brackets, where lines may break."""
    return _after_tokens(source, chance, lambda text, depth: depth > 0 and text in "([{,", '  # odd ) "\n')


def with_continued_lines(source: str, chance: random.Random) -> str:
    """Break lines with a backslash behind operators outside of brackets."""
    return _after_tokens(
        source, chance, lambda text, depth: depth == 0 and text in ("=", "+", "*", "+=", "<"), " \\\n "
    )


def with_walrus(source: str, chance: random.Random) -> str:
    """Write some assignments in functions as expressions."""

    def walrus(line: re.Match[str]) -> str:
        return f"{line[1]}({line[2]} := {line[3]})" if chance.random() < 0.3 else line[0]

    return _if_legal(source, re.sub(r"^( +)(\w+) = ([^,#\n]*[\w)])$", walrus, source, flags=re.MULTILINE))


def with_decorators(source: str, chance: random.Random) -> str:
    """Decorate functions, methods and classes once more."""
    return re.sub(r"^( *)(?=def |class )", r"\1@(lambda one: one)\n\1", source, flags=re.MULTILINE)


def with_options(source: str, chance: random.Random) -> str:
    """Hand options of launches over as a dictionary."""
    return _if_legal(source, re.sub(r"num_warps=\w+", "**config", source))


def with_circles(source: str, chance: random.Random) -> str:
    """Let names of functions be made of each other."""
    lines = "{0}odd, even = even, odd\n{0}odd = even + 1\n{0}even = odd\n{0}first = second\n{0}second = first\n"
    changed = re.sub(r"^( +)(?=return )", lambda found: lines.format(found[1]) + found[1], source, flags=re.MULTILINE)
    names = re.findall(r"(\w+) = (\w+)\.(?:shape|contiguous)", changed)
    for one, other in names:
        changed = changed.replace(f"{one} = {other}.", f"{one} = {other}; {other} = {one}; {one} = {other}.", 1)
    return _if_legal(source, changed)


def with_everything(source: str, chance: random.Random) -> str:
    """All of it."""
    for form in (with_circles, with_walrus, with_options, with_decorators, with_continued_lines, with_comments):
        source = form(source, chance)
    return source


FORMS: Mapping[str, Form] = {
    "comments": with_comments,
    "continued lines": with_continued_lines,
    "walrus": with_walrus,
    "decorators": with_decorators,
    "options": with_options,
    "circles": with_circles,
    "everything": with_everything,
}


def _after_tokens(source: str, chance: random.Random, fits: Callable[[str, int], bool], text: str) -> str:
    lines = source.splitlines(keepends=True)
    depth, places = 0, []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.OP:
            depth += (token.string in _OPEN) - (token.string in _CLOSE)
            if fits(token.string, depth) and chance.random() < 0.2:
                places.append(token.end)
    for row, column in reversed(places):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + text + line[column:]
    return _if_legal(source, "".join(lines))


def _if_legal(source: str, changed: str) -> str:
    """Return the changed source; the first one where that is not Python."""
    try:
        ast.parse(changed)
    except SyntaxError:
        return source
    return changed
