"""Compare the kernels of entries with their references on this machine, each in a sandbox.

Entries for other devices and versions are left out.

Exit codes: 0 all are correct, 1 some are wrong or damaged, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...core import KernelwrightError
from ...core.events import Emit, working
from ...deploy.models.results import verify_region
from ...deploy.models.store import StoreFile
from ...runtime import command, result
from ...runtime.runtime import Runtime
from ._options import EntriesOptions, entries_named

EXAMPLES = ("store verify", "store verify 5e3919fd9f47")
POSITIONAL = ("entries",)


@dataclass(frozen=True, kw_only=True)
class Options(EntriesOptions):
    """Compare entries with their references."""


@dataclass(frozen=True)
class Plan(command.Plan):
    """The entries to verify."""

    files: tuple[StoreFile, ...] = field(metadata=command.NOT_SHOWN)


class Result(result.Result):
    """The verdict on each entry."""

    verdicts: dict[str, str]
    """Comparison by name, or the reason why an entry is wrong or left out."""
    wrong: tuple[str, ...]
    """Names of entries that are wrong or damaged."""

    @property
    def exit_code(self) -> int:
        """1 if an entry is wrong or damaged."""
        return 1 if self.wrong else 0

    def lines(self) -> Iterator[str]:
        """A line for each."""
        for name, verdict in self.verdicts.items():
            yield f"{name[:41]}: {verdict}"
        if not self.verdicts:
            yield "the store is empty"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Read the entries."""
    return Plan(tuple(entries_named(options.folders, options.entries)))


def run(plan: Plan, emit: Emit) -> Result:
    """Compare them."""
    verdicts: dict[str, str] = {}
    wrong: list[str] = []
    for file in plan.files:
        if file.entry is None or file.problem:
            verdicts[file.name] = file.problem if file.damaged else f"left out: {file.problem}"
            wrong += [file.name] if file.damaged else []
            continue
        try:
            with working(emit, f"verifying {file.name[:41]}"):
                verdicts[file.name] = "; ".join(verify_region(file.entry))
        except KernelwrightError as error:
            verdicts[file.name] = str(error)
            wrong.append(file.name)
    return Result(verdicts=verdicts, wrong=tuple(wrong))
