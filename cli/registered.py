"""Commands of the registry on the command line: flags from their options, help from their docstrings.

Each is built when more than its line in the list of commands is asked for, so that help answers at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from ..runtime.command import Command, find_commands
from .guard import guarded
from .help_examples import with_examples
from .parameters import RESUMABLE, JsonOption, QuietOption, chosen, with_options

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, after every check of the options.")
]

if TYPE_CHECKING:
    from ..runtime.result import Result
    from .render import Screen


class CommandGroup(TyperGroup):
    """A group that has the commands of the registry too: those of its own name, or those of no group."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        path = (self.name,) if self.name != "kernelwright" else ()
        for command in find_commands():
            *group, name = command.path
            if tuple(group) == path:
                self.commands.setdefault(name, Registered(command))


class Registered(TyperCommand):
    """One command, which is built when it is used."""

    def __init__(self, command: Command) -> None:
        self._command = command
        super().__init__(command.path[-1], help=command.help)

    @cached_property
    def _built(self) -> Any:
        single = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
        single.command(self._command.path[-1])(function_of(self._command))
        return typer.main.get_command(single)

    @property
    def params(self) -> Any:
        """Its flags and arguments."""
        return self._built.params

    @params.setter
    def params(self, value: Any) -> None:
        """Ignore those that the base class sets: they come from the options."""

    @property
    def callback(self) -> Any:
        """What it does."""
        return self._built.callback

    @callback.setter
    def callback(self, value: Any) -> None:
        """Ignore what the base class sets."""

    def get_help(self, ctx: Any) -> str:
        """The help with examples, for which the module is imported."""
        self.help = self._built.help
        return super().get_help(ctx)


def function_of(command: Command) -> Any:
    """Return the function that typer makes a command of."""

    def call(
        given: Mapping[str, Any], json: JsonOption = False, quiet: QuietOption = False, dry_run: DryRunOption = False
    ) -> None:
        raise typer.Exit(guarded(lambda: _work(command, given, json, quiet, dry_run), interrupted(command)))

    call.__doc__ = command.help
    return with_examples(*command.examples)(with_options(command.options, command.positional)(call))


def interrupted(command: Command) -> str:
    """Return what is said after Ctrl-C: that it can be resumed, where it has that option."""
    resumable = any(field.name == "resume" for field in dataclasses.fields(command.options))
    return RESUMABLE if resumable else "interrupted"


def _work(command: Command, given: Mapping[str, Any], json: bool, quiet: bool, dry_run: bool) -> int:
    from ..runtime.runtime import Runtime
    from .render import Display
    from .tune_progress import search_display

    display = Display(json=json, quiet=quiet)
    screen = search_display(display)
    with Runtime(screen.emit) as runtime:
        plan = command.plan(chosen(given, command.options), runtime)
        if dry_run:
            _show_plan(plan.to_json(), screen)
            return 0
        result = command.run(plan, screen.emit)
    show(result, screen)
    return result.exit_code


def show(result: Result, screen: Screen) -> None:
    """Show a result: as one JSON object, or in lines, with warnings and a failure on standard error."""
    if result.failure:
        screen.errors.print(f"[red]failed:[/] {result.failure}")
    if screen.display.json:
        screen.display.print_json(result.to_json())
    elif not result.failure:
        screen.print_lines(result.lines())
        for warning in result.warnings:
            screen.warn(warning)


def _show_plan(plan: Mapping[str, Any], screen: Screen) -> None:
    if screen.display.json:
        screen.display.print_json(plan)
    else:
        screen.print_lines(f"{name}: {value}" for name, value in plan.items())
