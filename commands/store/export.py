"""Copy entries to another folder, which others may use read-only.

Exit codes: 0 copied, 1 there was nothing to copy, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...core import OptionError, ResultsError
from ...core.events import Emit
from ...deploy.models.store import RegionStore, StoreFile
from ...runtime import command, result
from ...runtime.options.option import option
from ...runtime.runtime import Runtime
from ._options import EntriesOptions, entries_named

EXAMPLES = ("store export --output /shared/store", "store export 5e3919fd9f47 --output store")
POSITIONAL = ("entries",)


@dataclass(frozen=True, kw_only=True)
class Options(EntriesOptions):
    """Copy entries to another folder."""

    output: Path | None = option(None, "The folder to copy to.", metavar="DIR", settable=False)

    def check(self) -> None:
        """Raise `OptionError` without a folder."""
        super().check()
        if self.output is None:
            raise OptionError("`output` is missing", "name the folder to copy entries to")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The entries to copy."""

    output: Path
    files: tuple[StoreFile, ...] = field(metadata=command.NOT_SHOWN)


class Result(result.Result):
    """The copies."""

    written: tuple[Path, ...]

    @property
    def exit_code(self) -> int:
        """1 if nothing was copied."""
        return 0 if self.written else 1

    def lines(self) -> Iterator[str]:
        """Each path."""
        yield from (str(path) for path in self.written)
        yield f"{len(self.written)} copied; KERNELWRIGHT_STORE names folders of entries, in order"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Read the entries. Raises `ResultsError` for a damaged one."""
    assert options.output is not None
    files = entries_named(options.folders, options.entries)
    for file in files:
        if file.damaged:
            raise ResultsError(f"{file.problem}: `kernelwright store prune` removes it")
    return Plan(options.output, tuple(files))


def run(plan: Plan, emit: Emit) -> Result:
    """Copy them."""
    target = RegionStore([plan.output])
    return Result(written=tuple(target.add(file.entry) for file in plan.files if file.entry is not None))
