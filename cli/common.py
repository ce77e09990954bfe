"""Options of the terminal, which several commands have and no Python caller needs."""

from __future__ import annotations

from typing import Annotated

import typer

from ..api.options.groups import OUTPUT

RESUMABLE = "interrupted; the same command with --resume goes on from here"

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.", rich_help_panel=OUTPUT)]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.", rich_help_panel=OUTPUT)]
