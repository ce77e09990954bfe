"""IREE's own MLIR bindings: imported when first needed, and its parser's messages as ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ...core import OptionError, ProblemError

LEVELS = 200
"""Regions in one another that are read. Python's own limit is another one wherever a library has raised it."""


def load() -> tuple[ModuleType, ModuleType]:
    """Return `iree.compiler.ir` and its dialect `linalg`. Raises `OptionError` if IREE is not installed."""
    try:
        from iree.compiler import ir
        from iree.compiler.dialects import func, iree_codegen, iree_gpu, linalg
    except ImportError:
        raise OptionError("IREE is not installed", "install the extra: pip install 'kernelwright[iree]'") from None
    # Imported for the attributes and operations that they make known.
    assert func and iree_codegen and iree_gpu
    return ir, linalg


@contextmanager
def parsed(source: str, name: str) -> Iterator[Any]:
    """Give a module as IREE reads it, within its context; raises `ProblemError` with the parser's message and line."""
    ir, _ = load()
    with ir.Context(), ir.Location.unknown():
        try:
            module = ir.Module.parse(source)
        except ir.MLIRError as error:
            raise ProblemError(_message(error, name)) from None
        try:
            yield module
        except RecursionError:
            raise ProblemError(f"{name} nests more than {LEVELS} levels deep; correct the module") from None


def walk(operation: Any, levels: int = LEVELS) -> list[Any]:
    """Return an operation's inner operations in the order of the text: an operation's position is its place here.

    Raises `RecursionError`, which `parsed` tells, where they nest more levels deep.
    """
    if not levels:
        raise RecursionError
    found = []
    for region in operation.regions:
        for block in region:
            for item in block.operations:
                found.append(item.operation)
                found += walk(item.operation, levels - 1)
    return found


def function_named(module: Any, name: str) -> Any:
    """Return the function of a module with this name."""
    return next(node for node in walk(module.operation) if node.name.endswith(".func") and symbol(node) == name)


def symbol(operation: Any) -> str:
    """Return the name of a function."""
    return str(operation.attributes["sym_name"].value)


def _message(error: Any, name: str) -> str:
    """Return the first diagnostic with its line."""
    first = next(iter(error.error_diagnostics), None)
    if first is None:
        return f"{name} is not valid MLIR: {' '.join(str(error).split())}"
    # The bindings give a location as text only: loc("-":11:14).
    found = re.search(r":(\d+):(\d+)\)", str(first.location))
    place = f", line {found[1]}, column {found[2]}" if found else ""
    return f"{name}{place}: {' '.join(first.message.split())}; correct the module"
