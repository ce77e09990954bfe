"""The options of `report`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .groups import OUTPUT
from .option import Options, described, option


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """Write HTML pages about recorded runs."""

    run: Path = field(
        kw_only=False,
        metadata=described("The journal of a run, or a results folder with one run or more.", metavar="RUN"),
    )
    output: Path | None = option(
        None,
        "File to write; beside the journal by default. Of several runs it is the page that lists them, and the others "
        "stand beside it.",
        OUTPUT,
        metavar="FILE",
    )

    def check(self) -> None:
        """Raise `OptionError` for an output that cannot be."""
        from ...core.errors import OptionError

        super().check()
        if self.output is not None and self.output.is_dir():
            raise OptionError(f"`output` {self.output} is a folder", "name a file")
