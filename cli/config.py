"""`kernelwright config`: which options are set, to what, and where."""

from __future__ import annotations

import dataclasses
import json as json_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .guard import guarded
from .help_examples import with_examples
from .parameters import JsonOption

if TYPE_CHECKING:
    from .app import Command, FieldType
    from .configuration import Source


@with_examples("config", "config tune kernel", "config optimize --json")
def config(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A command, such as 'tune kernel': all of its options, defaults too.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what files and the environment set of the options of all commands, and where each value comes from.

    A project's file may not set all: 'kernelwright trust' says which projects may.

    Exit codes: 0 shown, 2 an unknown command, key or value.
    """

    def work() -> int:
        rows = rows_of(tuple(command or ()))
        if json:
            typer.echo(json_module.dumps(rows))
            return 0
        for row in rows:
            refused = f"; {row['refused']} needs a trusted project" if "refused" in row else ""
            typer.echo(f"{row['command']}: {row['option']} = {row['value']}    ({row['where']}{refused})")
        if not rows:
            typer.echo("nothing is set: see docs/configuration.md for the files and variables")
        return 0

    raise typer.Exit(guarded(work))


def rows_of(command: Command) -> list[dict[str, Any]]:
    """What is set for all commands, or every option of one; raises `OptionError` for a command that is not there."""
    from ..core.errors import OptionError
    from ..corpus.names import nearest
    from .app import commands
    from .configuration import sources

    known = commands()
    chosen = {name: fields for name, fields in known.items() if name[: len(command)] == command}
    if not chosen:
        names = [" ".join(name) for name in known]
        told = " ".join(command)
        raise OptionError(f"there is no command '{told}'{nearest(told, names)}", "'kernelwright --help' lists them")
    found = sources()
    return [row for name, fields in chosen.items() for row in _rows(name, fields, found, every=bool(command))]


def _rows(command: Command, fields: dict[str, FieldType], found: list[Source], every: bool) -> list[dict[str, Any]]:
    from .project_settings import configured

    here, rows = configured(command, fields, found), []
    for name, (field, kind) in sorted(fields.items()):
        setting, refused = here.settings.get(name), here.refused.get(name)
        if setting is None and refused is None and not every:
            continue
        value = field.default if setting is None else setting.value_for(field, kind)
        where = "default" if setting is None else setting.where
        row = {"command": " ".join(command), "option": name, "value": _plain(value), "where": where}
        rows.append(row if refused is None else {**row, "refused": refused.where})
    return rows


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if value is dataclasses.MISSING:
        return None
    return value if value is None or isinstance(value, bool | int | float) else str(value)
