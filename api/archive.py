"""The archive of a command: what earlier runs learned, those of a results folder included."""

from __future__ import annotations

import getpass
import json
import os
import platform
import shlex
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
    Provenance,
    ResultsError,
    RunRecord,
    Trial,
    is_own,
    read_journal,
)
from ..core.files import archive_path
from ..core.records import parse_record

if TYPE_CHECKING:
    from .jobs import Job

HEAD = 8
"""The lines of a journal among which its first trial is."""
LOGS = "multiturn_logs"
MALFORMED = (KeyError, TypeError, ValueError, RecursionError)
"""What reading a journal raises that holds other records than those of a run."""


class EarlierRuns:
    """What earlier runs learned.

    Runs enter it as they end; one that was cut off, from its journal in a results folder, if this user's runs wrote it.
    Without the archive (`use` False) it is empty, and stays so.
    """

    def __init__(self, results: Path, note: Callable[[str], None], use: bool = True) -> None:
        self._archive = Archive(archive_path()) if use else None
        self._results = results
        self._note = note

    def runs(self, enter: bool = False) -> list[ArchivedRun]:
        """Return the archive's runs, and those of one's own in the results folder that it lacks; `enter` adds these."""
        if self._archive is None:
            return []
        known = self._archive.read()
        missing = self._missing({item.run for item in known})
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

    def add(self, journal: Journal) -> None:
        """Enter a run, by the records in its journal; a failure to do so costs a line, and no result."""
        if self._archive is None:
            return
        if not journal.ours:
            self._note(f"the archive does without this run: it goes on from another's; {_advice(journal.path)}")
            return
        try:
            run = archived(journal.records)
        except (KernelwrightError, KeyError, ValueError) as error:
            self._note(f"the archive does without this run ({error})")
            return
        if run is not None:
            self._add([run.model_copy(update={"origin": provenance(self._results, project=str(Path.cwd()))})])

    def _add(self, runs: Sequence[ArchivedRun]) -> None:
        if self._archive is None or not runs:
            return
        try:
            self._archive.add(*runs)
        except ResultsError as error:
            self._note(str(error))

    def _missing(self, known: set[str]) -> list[ArchivedRun]:
        """Read the journals of one's own runs that are not known; `_note` gets a line for each that cannot be read."""
        found, foreign = [], 0
        for path in journals_in(self._results / LOGS):
            try:
                if _identity(path) in known:
                    continue
                if not is_own(path):
                    foreign += 1
                elif (run := archived(read_journal(path))) is not None:
                    found.append(run.model_copy(update={"origin": provenance(self._results)}))
            except (KernelwrightError, OSError) as error:
                self._note(f"nothing learned from a run: {error}")
            except MALFORMED as error:
                self._note(f"nothing learned from a run: {malformed(path, error)}")
        if foreign:
            which = "a journal" if foreign == 1 else f"{foreign} journals"
            self._note(f"nothing learned from {which} that no run of yours signed; {_advice(self._results)}")
        return found


def provenance(folder: Path, imported: bool = False, project: str = "") -> Provenance:
    """Return where a record comes from that enters the archive now."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return Provenance(folder=str(folder.resolve()), imported=imported, project=project, user=user, host=platform.node())


def journals_in(folder: Path) -> list[Path]:
    """Return the journals of runs in a folder, those that were set aside too."""
    return sorted(path for path in folder.glob("journal_*.jsonl") if TUNING not in path.name)


def malformed(path: Path, error: BaseException) -> str:
    """Return what is said of a file with the records of no run."""
    return f"{path} is not a run's journal ({type(error).__name__}: {error})"


def _advice(path: Path) -> str:
    return f"`kernelwright corpus import {shlex.quote(str(path))}` enters it, if you trust it"


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
