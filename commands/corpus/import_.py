"""Add runs of others, or of an older version, to the archive of earlier runs.

The archive decides the order in which rules are tried, and models see its texts as examples: add only runs that you
trust.

Exit codes: 0 added, or already known, 1 no run had come far enough, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import computed_field

from ...agent.archived_run import archived
from ...agent.history.records import records_of, runs_in
from ...core import Archive, ArchivedRun, JournalError
from ...core.events import Emit
from ...core.files import archive_path
from ...runtime import command, result
from ...runtime.archive import MALFORMED, malformed, provenance
from ...runtime.options.option import Options as BaseOptions
from ...runtime.options.option import described
from ...runtime.runtime import Runtime

EXAMPLES = ("corpus import results", "corpus import ~/colleague/results --json")
POSITIONAL = ("runs",)


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Add runs of others, or from before journals were signed, to the archive."""

    runs: tuple[Path, ...] = field(
        kw_only=False, metadata=described("Journals of runs, or results folders that contain some.", metavar="RUN...")
    )


@dataclass(frozen=True)
class Plan(command.Plan):
    """The runs to import."""

    runs: tuple[ArchivedRun, ...] = field(metadata=command.NOT_SHOWN)
    known: int
    unfinished: int


class Result(result.Result):
    """The imported runs."""

    entered: result.ForPython[tuple[ArchivedRun, ...]]
    known: int
    """Runs that the archive had already; they stay as they are."""
    unfinished: int
    """Journals without a turn, from which nothing can be learned."""

    @computed_field(alias="entered")
    @property
    def runs(self) -> list[dict[str, str]]:
        """The runs that were added."""
        return [{"run": item.run, "problem": item.problem, "device": item.device} for item in self.entered]

    @property
    def exit_code(self) -> int:
        """1 if no run had a turn."""
        return 0 if self.entered or self.known else 1

    def lines(self) -> Iterator[str]:
        """A line for each run, and counts."""
        for item in self.entered:
            yield f"added: {item.problem} on {item.device} ({item.run})"
        yield f"{len(self.entered)} added, {self.known} already known, {self.unfinished} without a whole turn"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Read all named runs. Raises `JournalError` if one cannot be read."""
    there = {item.run for item in Archive(archive_path()).read()}
    found: dict[str, ArchivedRun] = {}
    known = unfinished = 0
    for path in (journal for named in options.runs for journal in runs_in(named, set_aside=True)):
        try:
            run = archived(records_of(path))
        except MALFORMED as error:
            raise JournalError(f"{malformed(path, error)}; name the others without it") from None
        if run is None:
            unfinished += 1
        elif run.run in there:
            known += 1
        else:
            found[run.run] = run.model_copy(update={"origin": provenance(path, imported=True)})
    return Plan(tuple(found.values()), known, unfinished)


def run(plan: Plan, emit: Emit) -> Result:
    """Enter them."""
    if plan.runs:
        Archive(archive_path()).add(*plan.runs)
    return Result(entered=plan.runs, known=plan.known, unfinished=plan.unfinished)
