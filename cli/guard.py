"""Turns a user's mistake or an interruption into one line and an exit code."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ..core.errors import KernelwrightError


def guarded(work: Callable[[], int], interrupted: str = "interrupted") -> int:
    """The exit code of `work`; 2 with one line for a user's mistake, 75 for a wait, 130 for Ctrl-C and SIGTERM."""
    from ..core.errors import KernelwrightError

    try:
        with _terminated_as_interrupted():
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
    from .parameters import as_flags, option_names

    shown = as_flags(str(error), option_names())
    typer.echo(f"{'waiting' if error.exit_code == 75 else 'error'}: {shown}", err=True)
    return error.exit_code


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, by which batch schedulers end a job, raises `KeyboardInterrupt`, so that workers and folders go too."""
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers
        yield
        return

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not cut the cleaning up short
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
