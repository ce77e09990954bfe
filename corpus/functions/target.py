"""Where a function stands: `path/to/ops.py::swiglu`, `package.module::swiglu`, or a Python function itself."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import OptionError
from ...core.syntax_tree import syntax_tree
from ..names import nearest

SEPARATOR = "::"


@dataclass(frozen=True)
class Target:
    """A function at the top level of a file."""

    path: Path
    """Resolved."""
    name: str

    def __str__(self) -> str:
        return f"{self.path.name}{SEPARATOR}{self.name}"


def is_function(reference: str) -> bool:
    """Return whether a text names a function in a file, not a kernel file."""
    return SEPARATOR in reference


def find_target(reference: str, option: str) -> Target:
    """Return the function that a text names.

    Raises `OptionError`, which names `option`: no such file, no such function, a function within another one.
    """
    where, _, name = reference.partition(SEPARATOR)
    if not where or not name:
        raise OptionError(f"`{option}` {reference!r} names no function", "write it as path/to/ops.py::swiglu")
    if "<lambda>" in name:
        raise OptionError(f"`{option}`: a lambda has no name to be found by", "define it with def, at the top level")
    if "." in name:
        raise OptionError(
            f"`{option}` {name} is within another function or class", "name a function at the top level of its file"
        )
    path = _file_of(where, option)
    defined, other = _functions(path, option)
    if name in other:
        line, advice = other[name]
        raise OptionError(f"`{option}`: {path}, line {line}: {name} is no function of the file's top level", advice)
    if name not in defined:
        raise OptionError(f"`{option}`: {path} defines no function {name!r}{nearest(name, defined)}")
    return Target(path, name)


def reference_to(function: Callable[..., Any], option: str) -> str:
    """Return the text that names a Python function; `OptionError` for one without a file of its own."""
    inner: Any = inspect.unwrap(function)
    while not inspect.isfunction(inner) and hasattr(inner, "fn"):  # under triton's decorators
        inner = inner.fn
    if not inspect.isfunction(inner):
        raise OptionError(
            f"`{option}` is a {type(function).__name__}", "give one that is defined with def, and calls it"
        )
    path = inner.__code__.co_filename
    if not Path(path).is_file():
        raise OptionError(f"`{option}` {inner.__qualname__} is in no file", "put it into one, and import it from there")
    return f"{path}{SEPARATOR}{inner.__qualname__}"


def _file_of(where: str, option: str) -> Path:
    path = Path(where)
    if path.is_file():
        return path.resolve()
    if "/" in where or where.endswith(".py"):
        raise OptionError(f"`{option}`: there is no file {where}")
    for entry in ("", *sys.path):
        folder = Path(entry or ".", *where.split("."))
        for found in (folder.with_suffix(".py"), folder / "__init__.py"):
            if found.is_file():
                return found.resolve()
    raise OptionError(f"`{option}`: there is no module {where}", "give the path of its file, or set PYTHONPATH")


def _functions(path: Path, option: str) -> tuple[list[str], dict[str, tuple[int, str]]]:
    """Return the functions that a file defines; of what else it names, the line and what to do instead."""
    try:
        tree = syntax_tree(path.read_text())
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError) as error:
        raise OptionError(f"`{option}`: cannot read {path}: {error}") from None
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    other: dict[str, tuple[int, str]] = {}
    open_: list[ast.AST] = list(tree.body)
    while open_:
        node = open_.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                other[name] = node.lineno, "write one there that calls it"
            case ast.Name(id=name, ctx=ast.Store()):
                other[name] = node.lineno, "write one there that calls it"
            case ast.ImportFrom(names=names):
                given = {item.asname or item.name: item.name for item in names}
                other |= {name: (node.lineno, f"name the file that defines {known}") for name, known in given.items()}
            case _:
                open_ += ast.iter_child_nodes(node)
    return defined, {name: found for name, found in other.items() if name not in defined}
