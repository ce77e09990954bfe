"""What a user's mistake or an interruption looks like on the command line: one line, and an exit code."""

from __future__ import annotations

from collections.abc import Callable

import typer


def guarded(work: Callable[[], int], interrupted: str = "interrupted") -> int:
    """The exit code of `work`; 2 with one line for a user's mistake, 130 for Ctrl-C."""
    from ..core.errors import KernelwrightError

    try:
        return work()
    except KernelwrightError as error:
        typer.echo(f"error: {error}", err=True)
        return 2
    except KeyboardInterrupt:
        typer.echo(f"\n{interrupted}", err=True)
        return 130
    except BrokenPipeError:
        return 1
