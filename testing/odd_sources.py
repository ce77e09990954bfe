"""Forms of a kernel's source that are legal and unusual: a model may write any of them."""

from __future__ import annotations

import ast
import io
import random
import re
import tokenize
from collections.abc import Callable, Mapping

from ..core.syntax_tree import syntax_tree

Form = Callable[[str, random.Random], str]
_OPEN, _CLOSE = "([{", ")]}"


def with_comments(source: str, chance: random.Random) -> str:
    """Put comments with brackets and quotes behind commas and opening brackets, at ends of lines, and at the margin."""
    inside = _after_tokens(source, chance, lambda text, depth: depth > 0 and text in "([{,", '  # odd ) "\n')
    return _after_tokens(inside, chance, lambda text, depth: text == "\n", "  # odd ] '\n# odd } \"", tokenize.NEWLINE)


def with_continued_lines(source: str, chance: random.Random) -> str:
    """Break lines with a backslash behind operators outside of brackets."""
    return _after_tokens(
        source, chance, lambda text, depth: depth == 0 and text in ("=", "+", "*", "+=", "<"), " \\\n "
    )


def with_walrus(source: str, chance: random.Random) -> str:
    """Write some assignments in functions as expressions, and name some of the arguments of calls."""
    lines = source.splitlines(keepends=True)
    functions = [node for node in ast.walk(syntax_tree(source)) if isinstance(node, ast.FunctionDef)]
    found = {part.lineno: part for node in functions for part in ast.walk(node) if isinstance(part, _PLAIN)}
    for number, statement in found.items():
        if statement.end_lineno == number and chance.random() < 0.3:
            lines[number - 1] = _walrus(lines[number - 1], statement)
    return _if_legal(source, "".join(lines))


_PLAIN = (ast.Assign, ast.Expr, ast.AugAssign, ast.Return)


def _walrus(line: str, statement: ast.stmt) -> str:
    """Return a line of ASCII, whose only statement this is, with a name given in an expression."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if not isinstance(value, ast.Tuple):
            return _written(line, statement, f"({name} := {ast.unparse(value)})")
    arguments = [part.args[0] for part in ast.walk(statement) if isinstance(part, ast.Call) and part.args]
    named = [part for part in arguments if isinstance(part, ast.Name | ast.BinOp)]
    return _written(line, named[-1], f"(odd := {ast.unparse(named[-1])})") if named else line


def _written(line: str, node: ast.stmt | ast.expr, text: str) -> str:
    return f"{line[: node.col_offset]}{text}{line[node.end_col_offset :]}" if line.isascii() else line


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
    for first, second in names:
        changed = changed.replace(
            f"{first} = {second}.", f"{first} = {second}; {second} = {first}; {first} = {second}.", 1
        )
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


def _after_tokens(
    source: str, chance: random.Random, fits: Callable[[str, int], bool], text: str, kind: int = tokenize.OP
) -> str:
    """Insert a text behind some of the tokens of a kind; in the place of those that end a line."""
    lines = source.splitlines(keepends=True)
    depth, places = 0, []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.OP:
            depth += (token.string in _OPEN) - (token.string in _CLOSE)
        if token.type == kind and fits(token.string, depth) and chance.random() < 0.2:
            places.append(token.end if kind == tokenize.OP else token.start)
    for row, column in reversed(places):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + text + line[column:]
    return _if_legal(source, "".join(lines))


def _if_legal(source: str, changed: str) -> str:
    """Return the changed source; the first one where that is not Python."""
    try:
        compile(syntax_tree(changed), "odd", "exec")
    except SyntaxError:
        return source
    return changed
