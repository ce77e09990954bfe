"""Runs a command from a command line: reads flags, plans, runs, and shows the result on the terminal.

A usage error or an interruption becomes one line and an exit code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import inspect
import io
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..runtime.command import NOTHING_FASTER as NOTHING_FASTER
from ..runtime.command import Command
from .parameters import (
    RESUMABLE,
    Display,
    JsonOption,
    QuietOption,
    VerboseOption,
    chosen,
    tell,
    with_examples,
    with_options,
)

if TYPE_CHECKING:
    from .screens import Screen


DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Check all options, and print what would be done.")]
LOG_LEVEL = "KERNELWRIGHT_LOG"
_LACKING = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE)
"""Errors of the machine: a closed pipe, a full disk, limits on files."""
_NO_FLAG = ("no such option: -k", "no such option: -k (a kernel needs no flag)")
_USAGE_ERROR: Any = typer.BadParameter.__base__
"""Errors of typer for unknown options and commands, and for values of a wrong type."""


def function_of(command: Command) -> Any:
    """Return the function from which typer makes a command."""

    def call(given: Mapping[str, Any], dry_run: bool = False, **shown: bool) -> None:
        raise typer.Exit(guarded(lambda: work(command, given, Display(**shown), dry_run), interrupted(command)))

    own = {field.name for field in dataclasses.fields(command.options)}
    flags = {"json": JsonOption, "quiet": QuietOption, "verbose": VerboseOption, "dry_run": DryRunOption}
    # A command may have its own dry run, which does something.
    wanted = [name for name in flags if name not in own and (name != "verbose" or command.declared.verbose)]
    given = inspect.Parameter("given", inspect.Parameter.KEYWORD_ONLY)
    of_terminal = [given.replace(name=name, default=False, annotation=flags[name]) for name in wanted]
    call.__signature__ = inspect.Signature([given, *of_terminal])  # type: ignore[attr-defined]
    call.__doc__ = command.help
    return with_examples(*command.declared.examples)(with_options(command.options, command.declared.positional)(call))


def interrupted(command: Command) -> str:
    """Return the message after Ctrl-C: by default how to resume, if the command has that option."""
    resumable = any(field.name == "resume" for field in dataclasses.fields(command.options))
    return command.declared.interrupted or (RESUMABLE if resumable else "interrupted")


def work(command: Command, given: Mapping[str, Any], display: Display, dry_run: bool = False) -> int:
    """Run a command with the values of a command line, and show its result. Return the exit code."""
    screen = open_screen(command, display)
    result = carry_out(command, given, screen, dry_run)
    if result is None:
        return 0
    if display.json:
        display.print_json(result.to_json())
    screen.show(result, None if display.json else screen.listing)
    exit_code: int = result.exit_code
    return exit_code


def open_screen(command: Command, display: Display) -> Screen:
    """Return the renderer of the command's events and results."""
    from ..core.errors import OptionError
    from .terminal import Terminal

    if display.quiet and display.verbose:
        raise OptionError("--quiet and --verbose exclude each other")
    return Terminal(dataclasses.replace(display, to_stderr=command.declared.to_stderr))


def carry_out(command: Command, given: Mapping[str, Any], screen: Screen, dry_run: bool = False) -> Any:
    """Return a command's result; None if its plan is shown instead."""
    from ..runtime.runtime import Runtime

    with Runtime(screen.emit) as runtime:
        plan = command.plan(chosen(given, command.options), runtime)
        if not dry_run:
            return command.run(plan, screen.emit)
        shown = plan.to_json()
        if screen.display.json:
            screen.display.print_json(shown)
        else:
            screen.print_lines(f"{name}: {value}" for name, value in shown.items())
        return None


def started(app: typer.Typer, name: str) -> int:
    """Run the command of the process's arguments, and return its exit code. A misspelt command is a one-line error."""
    for stream in (sys.stdout, sys.stderr):  # a terminal may have no sign for every letter
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        Path.cwd()
    except OSError:
        typer.echo("error: the current folder was deleted; change to another one", err=True)
        return 2
    try:
        return int(app(prog_name=name, standalone_mode=False) or 0)
    except typer.Abort:
        return 130
    except OSError as error:
        return _without_machine(error)
    except _USAGE_ERROR as error:
        message = " ".join(error.format_message().split()).replace("Value error, ", "")
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # the message is the help
        else:
            where = error.ctx.command_path if error.ctx else name
            text = f"{message[:1].lower()}{message[1:]}".rstrip(".").replace(*_NO_FLAG)
            typer.echo(f"error: {text}{'' if text.endswith('?') else ';'} see `{where} --help`", err=True)
        return int(error.exit_code)
    except Exception as error:
        from ..core.errors import KernelwrightError

        if not isinstance(error, KernelwrightError):
            raise
        return tell(error)  # a command of another package that cannot be loaded


def guarded(work: Callable[[], int], interrupted: str = "interrupted") -> int:
    """The exit code of `work`; 2 with one line for a usage error, 75 for a wait, 130 for Ctrl-C and SIGTERM."""
    from ..runtime.interruption import interruptible

    try:
        with interruptible():
            from ..core.errors import KernelwrightError  # may be interrupted too: more than a tenth of a second

            try:
                with _logged():
                    code = work()
                    if sys.stdout is not None:  # None where it was closed before
                        sys.stdout.flush()
                    return code
            except KernelwrightError as error:
                return tell(error)
    except KeyboardInterrupt:
        typer.echo(f"\n{interrupted}", err=True)
        return 130
    except OSError as error:
        return _without_machine(error)
    except MemoryError:
        typer.echo("error: there is too little memory; raise `ulimit -v`, or free some", err=True)
        return 1


def _without_machine(error: OSError) -> int:
    """Report that the machine cannot write output or open files; raise any other error."""
    if error.errno not in _LACKING:
        raise error
    with contextlib.suppress(AttributeError, OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())  # the rest of the buffer would fail again at the end
    if error.errno != errno.EPIPE:
        where = f" {error.filename}" if error.filename else ""
        typer.echo(f"error: cannot write or open{where}: {error.strerror}", err=True)
    return 1


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """Show the package's log on standard error, from the level that `KERNELWRIGHT_LOG` names."""
    from ..core.errors import OptionError

    wanted = os.environ.get(LOG_LEVEL, "")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PlainFormatter("%(message)s"))
    if not wanted:
        yield
        return
    if wanted.upper() not in logging.getLevelNamesMapping():
        raise OptionError(f"{LOG_LEVEL} is {wanted!r}", "set it to debug, info, warning or error")
    logger, handler = logging.getLogger(__name__.partition(".")[0]), logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(relativeCreated)6d ms %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(wanted.upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


class PlainFormatter(logging.Formatter):
    """Formats log records without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        from ..core.quotation import printable

        return printable(super().format(record))
