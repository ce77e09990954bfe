"""Turns a user's mistake or an interruption into one line and an exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from ..runtime.command import NOTHING_FASTER as NOTHING_FASTER

if TYPE_CHECKING:
    from ..core.errors import KernelwrightError

_USAGE_ERROR: Any = typer.BadParameter.__base__
"""What typer raises for options and commands that there are not, and for values of another type."""


def started(app: typer.Typer, name: str) -> int:
    """Run the command that the process's arguments say; return its exit code. A misspelt one is told in one line."""
    try:
        return int(app(prog_name=name, standalone_mode=False) or 0)
    except typer.Abort:
        return 130
    except _USAGE_ERROR as error:
        message = " ".join(error.format_message().split()).replace("Value error, ", "")
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # the message is the help
        else:
            where = error.ctx.command_path if error.ctx else name
            told = f"{message[:1].lower()}{message[1:]}".rstrip(".")
            typer.echo(f"error: {told}{'' if told.endswith('?') else ';'} see `{where} --help`", err=True)
        return int(error.exit_code)


def guarded(work: Callable[[], int], interrupted: str = "interrupted") -> int:
    """The exit code of `work`; 2 with one line for a user's mistake, 75 for a wait, 130 for Ctrl-C and SIGTERM."""
    from ..api.interruption import interruptible

    try:
        with interruptible():
            from ..core.errors import KernelwrightError  # may be interrupted, too: more than a tenth of a second

            try:
                return work()
            except KernelwrightError as error:
                return tell(error)
    except KeyboardInterrupt:
        typer.echo(f"\n{interrupted}", err=True)
        return 130
    except BrokenPipeError:
        return 1


def tell(error: KernelwrightError) -> int:
    """Print a mistake as one line, with flags for the options that it names, and return its exit code."""
    from .flags import as_flags, option_names

    shown = as_flags(str(error), option_names())
    typer.echo(f"{'waiting' if error.exit_code == 75 else 'error'}: {shown}", err=True)
    return error.exit_code
