"""The commands and what a configuration may set of each, taken from the commands themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..core.errors import OptionError
from ..corpus.names import nearest

if TYPE_CHECKING:
    from .configuration import Command, FieldType, Table


def commands() -> dict[Command, dict[str, FieldType]]:
    """The options that a configuration may set, by command, each with its field and type."""
    import typer.main

    from .main import app

    found: dict[Command, dict[str, FieldType]] = {}

    def walk(command: Any, path: Command) -> None:
        for name, child in getattr(command, "commands", {}).items():
            walk(child, (*path, name))
        if not hasattr(command, "commands"):
            found[path] = getattr(command.callback, "option_fields", {})

    walk(typer.main.get_command(app), ())
    return found


def check_keys(table: Table) -> None:
    """Raise `OptionError` for a table that no command has, and for a key that none of the table's commands has."""
    _check(table, table.content, (), commands())


def _check(table: Table, content: Mapping[str, Any], path: Command, known: Mapping[Command, Mapping[str, Any]]) -> None:
    below = {command: fields for command, fields in known.items() if command[: len(path)] == path}
    names = {name for fields in below.values() for name in fields}
    children = {command[len(path)] for command in below if len(command) > len(path)}
    for key, value in content.items():
        where = f"{table.path}: {table.key(path, key)}"
        if not isinstance(value, dict):
            if key not in names:
                raise OptionError(f"{where} is no option{nearest(key, names)}", "'kernelwright config' lists them")
        elif key in children:
            _check(table, value, (*path, key), known)
        else:
            named = f"{table.path}: [{'.'.join(filter(None, (table.prefix, *path, key)))}]"
            raise OptionError(f"{named} is a table, and no command is called so{nearest(key, children)}")
