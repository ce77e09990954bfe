"""`kernelwright corpus`: the worked examples, which can be measured, listed, and added to from runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from ..api.options.corpus import AddOptions, ImportOptions, ListOptions, VerifyOptions
from .guard import guarded
from .help_examples import examples_block, with_examples
from .parameters import JsonOption, QuietOption, with_options
from .registered import CommandGroup

corpus_app = typer.Typer(
    cls=CommandGroup,
    name="corpus",
    help="The worked examples that models are shown.\n\n"
    + examples_block(("corpus list --backend triton", "corpus add results")),
    no_args_is_help=True,
)


@corpus_app.callback()
def corpus() -> None:
    """See the help of `corpus_app`."""


@corpus_app.command()
@with_examples("corpus verify triton/softmax-online --device cuda", "corpus verify --kernels --record measured.json")
@with_options(VerifyOptions, positional=("examples",))
def verify(given: Mapping[str, Any], json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Check that both kernels of each example are correct, and measure how much faster the second one is.

    With --kernels the shipped kernels are checked first, each at the device's default sizes.

    Exit codes: 0 all are correct, 1 some are not, 2 wrong usage.
    """

    def work() -> int:
        from .corpus_display import show_verify
        from .render import Display

        return show_verify(given, Display(json=json, quiet=quiet))

    raise typer.Exit(guarded(work))


@corpus_app.command()
@with_examples(
    "corpus add results",
    "corpus add results/multiturn_logs/journal_36_RMSNorm.jsonl --folder ~/team",
)
@with_options(AddOptions, positional=("run",))
def add(given: Mapping[str, Any], json: JsonOption = False) -> None:
    """Make a worked example of a run's verified improvement: in one's own folder, or in one that is shared.

    Models see those of 'optimize --examples ~/team' beside the shipped ones.

    Exit codes: 0 written, 2 the run has no verified improvement, or wrong usage.
    """

    def work() -> int:
        from .corpus_display import show_add
        from .render import Display

        return show_add(given, Display(json=json))

    raise typer.Exit(guarded(work))


@corpus_app.command(name="import")
@with_examples("corpus import results", "corpus import ~/colleague/results --json")
@with_options(ImportOptions, positional=("runs",))
def import_runs(given: Mapping[str, Any], json: JsonOption = False) -> None:
    """Enter runs that are not your own, or of an older version, into the archive of what runs learned.

    Rules are tried in the order that they suggest, and models see their texts as examples: enter only what you trust.

    Exit codes: 0 entered, or known already, 1 no run had come far enough, 2 wrong usage.
    """

    def work() -> int:
        from .corpus_display import show_import
        from .render import Display

        return show_import(given, Display(json=json))

    raise typer.Exit(guarded(work))


@corpus_app.command(name="list")
@with_examples("corpus list --backend triton", "corpus list --folder ~/team --json")
@with_options(ListOptions)
def list_all(given: Mapping[str, Any], json: JsonOption = False) -> None:
    """List the worked examples with what was measured of them.

    Exit codes: 0 listed, 1 there are none, 2 wrong usage.
    """

    def work() -> int:
        from .corpus_display import show_list
        from .render import Display

        return show_list(given, Display(json=json))

    raise typer.Exit(guarded(work))
