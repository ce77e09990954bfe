"""`kernelwright corpus`: the worked examples; `verify` measures each before and after on this machine's device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .guard import guarded
from .options import DeviceOption, JsonOption, QuietOption

corpus_app = typer.Typer(name="corpus", help="The worked examples that models are shown.", no_args_is_help=True)


@corpus_app.callback()
def corpus() -> None:
    """The worked examples that models are shown."""


@corpus_app.command()
def verify(
    examples: Annotated[
        list[str] | None, typer.Argument(help="Examples, such as triton/softmax-online; all by default.")
    ] = None,
    device: DeviceOption = "auto",
    record: Annotated[
        Path | None,
        typer.Option(help="File for the figures; those that models are shown stand in corpus/examples/measured.json."),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check that both kernels of each example are right, and measure how much faster the second one is.

    Exit codes: 0 all are right, 1 some are not, 2 wrong usage.
    """
    from .verify import run_verify

    raise typer.Exit(guarded(lambda: run_verify(examples or [], device, record, json, quiet)))
