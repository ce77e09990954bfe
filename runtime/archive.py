"""Earlier runs: the archive together with the runs of a results folder, and the worked examples.

Examples are the shipped ones, the user's own, and improvements that earlier runs have found.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import shlex
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..agent.archived_run import archived, run_id
from ..agent.history.records import LOGS, journals_in
from ..agent.priors import Gains, archived_gains
from ..core import (
    Archive,
    ArchivedRun,
    Hit,
    Journal,
    KernelwrightError,
    PriorRecord,
    Provenance,
    Query,
    ResultsError,
    Retriever,
    RunRecord,
    Trial,
    is_own,
    read_journal,
)
from ..core.files import archive_path, cache_folder
from ..core.records import parse_record
from ..core.text import BAD_DATA

if TYPE_CHECKING:
    from .jobs import Job

HEAD = 8
"""Number of lines of a journal that contain its first trial."""
MALFORMED = (KeyError, TypeError, ValueError, RecursionError)
"""Errors of reading a journal that is not of a run."""


class EarlierRuns:
    """Knowledge from earlier runs.

    Runs are added when they end. An interrupted run is added from its journal in a results folder, if this user ran it.
    Without the archive (`use` False) it is empty, and stays so.
    """

    def __init__(self, results: Path, note: Callable[[str], None], use: bool = True) -> None:
        self._archive = Archive(archive_path()) if use else None
        self._results = results
        self._note = note

    def runs(self, enter: bool = False) -> list[ArchivedRun]:
        """Return the runs of the archive, and missing runs of this user in the results folder. `enter` adds these."""
        if self._archive is None:
            return []
        known = self._archive.read()
        missing = self._missing({item.run for item in known})
        if enter:
            self._add(missing)
        return [*known, *missing]

    def gains(self, journal: Journal, job: Job) -> Gains:
        """Return the expected gains of rules, from the start of a resumed run, otherwise from earlier runs."""
        known = next(journal.of(PriorRecord), None)
        if known is None:
            known = PriorRecord(gains=archived_gains(self.runs(enter=True), job.backend, job.label, job.problem.id))
            journal.append(known)
        return known.gains

    def add(self, journal: Journal) -> None:
        """Enter a run, from the records of its journal. A failure to do so is reported, and costs no result."""
        if self._archive is None:
            return
        if not journal.ours:
            self._note(f"this run is not archived, since it continues someone else's; {_advice(journal.path)}")
            return
        try:
            run = archived(journal.records)
        except (KernelwrightError, KeyError, ValueError) as error:
            self._note(f"this run is not archived ({error})")
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
        """Read the journals of this user's unknown runs. `_note` gets a line for each unreadable one."""
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
    """Return the origin of a record that enters the archive now."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return Provenance(folder=str(folder.resolve()), imported=imported, project=project, user=user, host=platform.node())


def malformed(path: Path, error: BaseException) -> str:
    """Return the message for a file that is not a run's journal."""
    return f"{path} is not a run's journal ({type(error).__name__}: {error})"


def _advice(path: Path) -> str:
    return f"`kernelwright corpus import {shlex.quote(str(path))}` enters it, if you trust it"


def _identity(path: Path) -> str | None:
    """Return the id of a journal's run, from its first lines only; None without a trial."""
    run = None
    with path.open("rb") as file:
        for number in range(1, HEAD + 1):
            try:
                record = parse_record(json.loads(file.readline()), path, number)
            except BAD_DATA:
                return None  # `read_journal` reports the error
            if isinstance(record, RunRecord):
                run = record
            if isinstance(record, Trial) and run is not None:
                return run_id(run, record)
    return None


class Examples:
    """The worked examples, searched by meaning and by words.

    They are loaded at the first search: the embedding model takes seconds, and a resumed run may not need it.
    """

    def __init__(self, earlier: EarlierRuns, own: Path, note: Callable[[str], None]) -> None:
        """`own` is a further folder of examples, which may be missing."""
        self._earlier = earlier
        self._own = own
        self._note = note
        self._lock = threading.Lock()
        self._retriever: Retriever | None = None

    def search(self, query: Query, k: int) -> list[Hit]:
        """See `core.Retriever`."""
        with self._lock:
            if self._retriever is None:
                self._retriever = self._load()
        return self._retriever.search(query, k)

    def _load(self) -> Retriever:
        from ..corpus.examples import load_examples
        from ..rag import ExampleRetriever, load_embedder, run_examples

        examples = load_examples(self._note)
        if self._own.is_dir():
            examples += load_examples(self._note, self._own)
        examples += run_examples(self._earlier.runs(), self._note)
        return ExampleRetriever(examples, load_embedder(self._note), cache_folder() / "examples", self._note)
