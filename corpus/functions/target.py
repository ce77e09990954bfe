"""References to callables: `path/to/ops.py::swiglu`, `package.module::Norm.forward`, or a Python function itself."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import KernelError, OptionError
from ..names import nearest
from .modules import ModuleText, Place

SEPARATOR = "::"


@dataclass(frozen=True)
class Target:
    """A callable in a file: a function, a class's method or attribute, an operator, or anything else with a name."""

    path: Path
    """Resolved."""
    name: str
    """With dots: 'swiglu', 'Norm.forward'."""

    def __str__(self) -> str:
        return f"{self.path.name}{SEPARATOR}{self.name}"

    @property
    def place(self) -> Place:
        """The place of its module."""
        return Place(self.path)


def is_function(reference: str) -> bool:
    """Return whether a text names a function in a file, not a kernel file."""
    return SEPARATOR in reference


def find_target(reference: str, option: str) -> Target:
    """Return the callable that a text names.

    Raises `OptionError`, which names `option`: no such file, no such name in it.
    """
    where, _, name = reference.partition(SEPARATOR)
    if not where or not all(part.isidentifier() for part in name.split(".")):
        if "<lambda>" in name:
            raise OptionError(f"`{option}`: a lambda has no name to be found by", "define it with def")
        if "<locals>" in name:
            raise OptionError(f"`{option}` {name} is within another function", "name one that the file's top level has")
        raise OptionError(f"`{option}` {reference!r} names no function", "write it as path/to/ops.py::swiglu")
    path = _file_of(where, option)
    module = _read(path, option)
    known = [*module.definitions, *module.imports]
    if (first := name.partition(".")[0]) not in known and not module.stars:
        raise OptionError(f"`{option}`: {path} defines no function {first!r}{nearest(first, known)}")
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


def _read(path: Path, option: str) -> ModuleText:
    try:
        return ModuleText(Place(path).module, path)
    except KernelError as error:
        raise OptionError(f"`{option}`: {error}") from None
