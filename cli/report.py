"""`kernelwright report`: recorded runs as HTML pages that need nothing else."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from typing import Any

import typer

from ..api.options.report import ReportOptions
from .guard import guarded
from .help_examples import with_examples
from .parameters import JsonOption, with_options


@with_examples("report results", "report results/multiturn_logs --output runs.html")
@with_options(ReportOptions, positional=("run",))
def report(given: Mapping[str, Any], json: JsonOption = False) -> None:
    """Write one HTML page about a run of 'optimize': metrics, plots, and each turn with its prompts, tools and changes.

    A folder with several runs gets a page for each, and one that lists them.

    Exit codes: 0 written, 2 wrong usage.
    """

    def work() -> int:
        from ..api.report import run_report
        from .parameters import chosen
        from .render import Display, Screen

        result = run_report(chosen(given, ReportOptions), Screen(Display(json=json)).emit)
        if json:
            typer.echo(json_module.dumps(result.summary()))
            return 0
        typer.echo(f"report: {result.page}")
        for page in result.runs:
            typer.echo(f"  {page}")
        return 0

    raise typer.Exit(guarded(work))
