"""The program: the commands of the registry, with flags from their options and help from their docstrings.

A command is built when more than its line in the list of commands is needed, and heavy modules are imported late, so
that help is fast.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from .. import __version__
from ..runtime.command import Command, about_group, find_commands
from .execution import function_of, started
from .parameters import examples_block

OPTIMIZE = ("optimize",)
HELP = {"help_option_names": ["-h", "--help"]}
FIRST_STEPS = (
    "optimize level1/1_94.py --target-speedup 1.3",
    "evaluate 1_19",
    "tune kernel 1_1 --trials 100",
)
app = typer.Typer(
    name="kernelwright",
    help=f"Make GPU and CPU kernels faster, and prove it.\n\n{examples_block(FIRST_STEPS)}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


class CommandGroup(TyperGroup):
    """A group of commands of the registry, and of groups of them."""

    def __init__(self, path: tuple[str, ...] = (), **given: Any) -> None:
        super().__init__(**given)
        for command in find_commands():
            if command.path[: len(path)] != path:
                continue
            name, *below = command.path[len(path) :]
            if name not in self.commands:
                self.commands[name] = _group((*path, name)) if below else Registered(command)


def _group(path: tuple[str, ...]) -> CommandGroup:
    description, examples = about_group(path)
    return CommandGroup(path, name=path[-1], help=f"{description}\n\n{examples_block(examples)}", no_args_is_help=True)


class Registered(TyperCommand):
    """One command, which is built when it is used."""

    def __init__(self, command: Command) -> None:
        self._command = command
        super().__init__(command.path[-1], help=command.help)

    @cached_property
    def _built(self) -> Any:
        single = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
        if self._command.path == OPTIMIZE:
            from .optimize import optimize as function  # one entry for three commands
        else:
            function = function_of(self._command)
        single.command(self._command.path[-1])(function)
        return typer.main.get_command(single)

    @property
    def params(self) -> Any:
        """The command's flags and arguments."""
        return self._built.params

    @params.setter
    def params(self, value: Any) -> None:
        """Ignore the base class's assignment: parameters come from the options."""

    @property
    def callback(self) -> Any:
        """The function that runs it."""
        return self._built.callback

    @callback.setter
    def callback(self, value: Any) -> None:
        """Ignore the base class's assignment."""

    def get_help(self, ctx: Any) -> str:
        """The help with examples, for which the module is imported."""
        self.help = self._built.help
        return super().get_help(ctx)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kernelwright {__version__}")
        raise typer.Exit


@app.callback(cls=CommandGroup)
def root(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """See the help of `app`."""


def main() -> None:
    """`kernelwright COMMAND`, also as `python -m kernelwright`: completion belongs to the name."""
    sys.exit(started(app, "kernelwright"))


def optimize_main() -> None:
    """`optimize`, short for `kernelwright optimize`."""
    from .optimize import optimize

    single = typer.Typer(pretty_exceptions_enable=False, context_settings=HELP)
    single.command("optimize")(optimize)
    sys.exit(started(single, "optimize"))
