"""`kernelwright corpus`: the worked examples; `verify` measures each before and after on this machine's device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from ..api.options.corpus import VerifyOptions
from .common import JsonOption, QuietOption
from .guard import guarded
from .parameters import with_options

corpus_app = typer.Typer(name="corpus", help="The worked examples that models are shown.", no_args_is_help=True)


@corpus_app.callback()
def corpus() -> None:
    """The worked examples that models are shown."""


@corpus_app.command()
@with_options(VerifyOptions, positional=("examples",))
def verify(given: Mapping[str, Any], json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Check that both kernels of each example are correct, and measure how much faster the second one is.

    With --kernels the shipped kernels are checked first, each at the device's default sizes.

    Exit codes: 0 all are correct, 1 some are not, 2 wrong usage.
    """

    def work() -> int:
        from .render import Display
        from .verify import show_verify

        return show_verify(given, Display(json=json, quiet=quiet))

    raise typer.Exit(guarded(work))
