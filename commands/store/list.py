"""List the entries of the store, and why some are not used here.

Exit codes: 0 listed, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.events import Emit
from ...runtime import command, result
from ...runtime.runtime import Runtime
from ._options import StoreOptions, entries_named, line_of, row_of

EXAMPLES = ("store list", "store list --folder /shared/store --json")


@dataclass(frozen=True, kw_only=True)
class Options(StoreOptions):
    """List the entries of the store."""


@dataclass(frozen=True)
class Plan(command.Plan):
    """The folders to list."""

    folders: tuple[Path, ...]


class Result(result.Result):
    """The entries, by folder in the order in which they are searched."""

    entries: list[dict[str, Any]]
    """Name, folder, device, versions, times; `problem` says why an entry is not used here, '' if it is."""

    def lines(self) -> Iterator[str]:
        """A line for each, below its folder."""
        folder = ""
        for row in self.entries:
            if row["folder"] != folder:
                folder = row["folder"]
                yield f"{folder}:"
            yield f"  {line_of(row)}"
        if not self.entries:
            yield "the store is empty"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Name the folders."""
    return Plan(options.folders)


def run(plan: Plan, emit: Emit) -> Result:
    """Read the entries."""
    return Result(entries=[row_of(file) for file in entries_named(plan.folders, ())])
