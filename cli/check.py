"""`kernelwright check`: kernels against their references and stored figures, for continuous integration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from ..api.options.check import CheckOptions
from .guard import guarded
from .help_examples import with_examples
from .parameters import JsonOption, QuietOption, with_options


@with_examples(
    "check kernels/*.py --baseline-file kernels/figures.json --record",
    "check kernels/*.py --baseline-file kernels/figures.json --junit check.xml",
)
@with_options(CheckOptions, positional=("files",))
def check(given: Mapping[str, Any], json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Check kernels against their references, and compare their speed with stored figures of the same device.

    Exit codes: 0 all are correct and none is slower, 1 some are wrong, unproven or slower, 2 wrong usage.
    """

    def work() -> int:
        from .check_display import show_check
        from .render import Display

        return show_check(given, Display(json=json, quiet=quiet))

    raise typer.Exit(guarded(work))
