"""The names of options as flags, on the command line and in messages."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
import re
from collections.abc import Collection

from ..api import options as api_options
from ..api.options.option import Options

SHORT = {"kernel": "-k", "list_slow": "-l", "quiet": "-q", "output": "-o"}
SINGULAR = {"params": "param"}
"""Flags that give one element of a Python sequence."""
_NAMED = re.compile(r"`([a-z][a-z0-9_]*)`")


def flag_of(name: str, negated: bool = False) -> str:
    """'--max-cost' for 'max_cost'; '--no-save' for a negated 'save'."""
    return f"--{'no-' if negated else ''}{SINGULAR.get(name, name).replace('_', '-')}"


def as_flags(text: str, names: Collection[str]) -> str:
    """A message with the options that it names in backticks shown as flags: `max_cost` as --max-cost."""

    def flag(match: re.Match[str]) -> str:
        name = match[1]
        return flag_of(name, negated=name in true_by_default()) if name in names else match[0]

    return _NAMED.sub(flag, text)


def option_names() -> frozenset[str]:
    """The names of the options of all commands whose modules are imported."""
    return _names(len(_classes()))[0]


def true_by_default() -> frozenset[str]:
    """The names of the options whose flags turn them off."""
    return _names(len(_classes()))[1]


@functools.cache
def _names(classes: int) -> tuple[frozenset[str], frozenset[str]]:
    """The names, and those of options that are true by default; found anew where a command brought more classes."""
    fields = [field for item in _classes() for field in dataclasses.fields(item)]
    names = {field.name for field in fields} | {"batch", "list_slow"}
    return frozenset(names), frozenset(field.name for field in fields if field.default is True)


def _classes() -> list[type[Options]]:
    """All option classes."""
    _import_shared()
    classes, below = [], Options.__subclasses__()
    while below:
        classes.append(one := below.pop())
        below += one.__subclasses__()
    return classes


@functools.cache
def _import_shared() -> None:
    for module in pkgutil.iter_modules(api_options.__path__):
        importlib.import_module(f"{api_options.__name__}.{module.name}")
