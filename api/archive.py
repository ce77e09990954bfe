"""The archive of a command: what earlier runs learned, those of a results folder included."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..agent.archived_run import archived, run_id
from ..agent.priors import Gains, archived_gains
from ..agent.searches import TUNING
from ..core import (
    Archive,
    ArchivedRun,
    Journal,
    KernelwrightError,
    PriorRecord,
    Record,
    ResultsError,
    RunRecord,
    Trial,
    read_journal,
)
from ..core.files import archive_path
from ..core.records import parse_record

if TYPE_CHECKING:
    from .jobs import Job

HEAD = 8
"""The lines of a journal among which its first trial is."""


class EarlierRuns:
    """What earlier runs learned.

    Runs enter it as they end; one that was cut off, or that an older version made, from its journal in a results
    folder. Without the archive (`use` False) it is empty, and stays so.
    """

    def __init__(self, results: Path, note: Callable[[str], None], use: bool = True) -> None:
        self._archive = Archive(archive_path()) if use else None
        self._logs = results / "multiturn_logs"
        self._note = note

    def runs(self, enter: bool = False) -> list[ArchivedRun]:
        """Return the archive's runs, and those whose journals in the results folder it lacks; `enter` adds these."""
        if self._archive is None:
            return []
        known = self._archive.read()
        missing = self._missing({one.run for one in known})
        if enter:
            self._add(missing)
        return [*known, *missing]

    def gains(self, journal: Journal, job: Job) -> Gains:
        """Return what rules are expected to gain: as a resumed run began, else by the earlier runs."""
        known = next(journal.of(PriorRecord), None)
        if known is None:
            known = PriorRecord(gains=archived_gains(self.runs(enter=True), job.backend, job.label, job.problem.id))
            journal.append(known)
        return known.gains

    def add(self, records: Sequence[Record]) -> None:
        """Enter a run, by the records in its journal; a failure to do so costs a line, and no result."""
        try:
            run = archived(records)
        except (KernelwrightError, KeyError, ValueError) as error:
            self._note(f"the archive does without this run ({error})")
            return
        if run is not None:
            self._add([run])

    def _add(self, runs: Sequence[ArchivedRun]) -> None:
        if self._archive is None or not runs:
            return
        try:
            self._archive.add(*runs)
        except ResultsError as error:
            self._note(str(error))

    def _missing(self, known: set[str]) -> list[ArchivedRun]:
        """Read the journals of runs that are not known; `_note` gets a line for each that cannot be read."""
        found = []
        for path in sorted(self._logs.glob("journal_*.jsonl")):
            if TUNING in path.name:
                continue
            try:
                if _identity(path) not in known and (run := archived(read_journal(path))) is not None:
                    found.append(run)
            except (KernelwrightError, OSError) as error:
                self._note(f"nothing learned from a run: {error}")
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                self._note(
                    f"nothing learned from a run: {path} is not a run's journal ({type(error).__name__}: {error})"
                )
        return found


def _identity(path: Path) -> str | None:
    """Return which run a journal is of, from its first lines alone: a folder may hold hundreds. None before a trial."""
    run = None
    with path.open("rb") as file:
        for number in range(1, HEAD + 1):
            try:
                record = parse_record(json.loads(file.readline()), path, number)
            except ValueError:
                return None  # `read_journal` says what is wrong with it
            if isinstance(record, RunRecord):
                run = record
            if isinstance(record, Trial) and run is not None:
                return run_id(run, record)
    return None
