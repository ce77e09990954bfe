"""Show an entry of the store: its figures, the region's reference and the kernels.

Exit codes: 0 shown, 2 there is no such entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...core import ResultsError
from ...core.events import Emit
from ...core.files import read_text
from ...core.quotation import plain
from ...core.text import data_of
from ...deploy.models.store import StoreFile
from ...runtime import command, result
from ...runtime.options.option import described
from ...runtime.runtime import Runtime
from ._options import StoreOptions, entries_named, line_of, row_of

EXAMPLES = ("store show 5e3919fd9f47",)
POSITIONAL = ("entry",)


@dataclass(frozen=True, kw_only=True)
class Options(StoreOptions):
    """Show an entry of the store."""

    entry: str = field(
        kw_only=False, metadata=described("The entry's name, or the digits that it begins with.", metavar="ENTRY")
    )


@dataclass(frozen=True)
class Plan(command.Plan):
    """The entry."""

    file: StoreFile = field(metadata=command.NOT_SHOWN)


class Result(result.Result):
    """An entry."""

    entry: dict[str, Any]
    """The entry as in `store list`."""
    text: str
    """Text of the entry's file."""

    def lines(self) -> Iterator[str]:
        """The entry's line, and its file."""
        yield line_of(self.entry)
        yield from plain(self.text).splitlines()


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the entry."""
    return Plan(entries_named(options.folders, [options.entry])[0])


def run(plan: Plan, emit: Emit) -> Result:
    """Read it."""
    with data_of(plan.file.path, ResultsError):
        return Result(entry=row_of(plan.file), text=read_text(plan.file.path))
