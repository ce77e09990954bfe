"""`kernelwright check` on the terminal, and its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape

from ..api.check import run_check
from ..api.check_reports import in_words, junit, markdown
from ..api.check_result import KernelCheck, Verdict
from ..api.options.check import CheckOptions
from ..core import ResultsError
from ..core.events import Event, PartDone
from ..core.files import write_whole
from .parameters import chosen
from .render import Display, Screen

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""GitHub's variable for a file whose Markdown it shows on a run's page."""


class CheckDisplay(Screen):
    """One line per kernel; those that failed also with --quiet."""

    def emit(self, event: Event) -> None:
        """Show the line of a kernel."""
        if not (isinstance(event, PartDone) and isinstance(event.result, KernelCheck)):
            super().emit(event)
            return
        result = event.result
        doubtful = result.verdict in (Verdict.CHECKED, Verdict.DISTURBED)
        color = "red" if result.failed else "yellow" if doubtful else "green"
        if result.failed or not self.display.quiet:
            line = f"[{color}]{escape(result.kernel)}[/]: {escape(in_words(result))}"
            self.print(f"[{event.number}/{event.total}] {line}")


def show_check(given: Mapping[str, Any], display: Display) -> int:
    """Check, write what was asked for; 0 when nothing failed."""
    options, screen = chosen(given, CheckOptions), CheckDisplay(display)
    result = run_check(options, screen.emit)
    if options.junit is not None:
        write_whole(options.junit, junit(result), "choose another `junit`")
    if options.summary is not None:
        write_whole(options.summary, markdown(result), "choose another `summary`")
    if path := os.environ.get(STEP_SUMMARY):
        _append(Path(path), markdown(result))
    if display.json:
        display.print_json(result.summary())
    else:
        screen.print(f"{len(result.kernels) - len(result.failed)} of {len(result.kernels)} kernels passed")
    return 1 if result.failed else 0


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a") as file:
            file.write(text)
    except OSError as error:
        raise ResultsError(f"cannot write {path}: {error.strerror}", f"unset {STEP_SUMMARY}") from None
