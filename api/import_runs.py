"""`corpus import`: the runs of others enter the archive, because the user says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..agent.archived_run import archived
from ..agent.history.files import records_of
from ..core import Archive, ArchivedRun, JournalError
from ..core.files import archive_path
from .archive import LOGS, MALFORMED, journals_in, malformed, provenance
from .options.corpus import ImportOptions


@dataclass(frozen=True)
class ImportResult:
    """What has entered the archive."""

    entered: tuple[ArchivedRun, ...]
    known: int
    """Runs that the archive had already; they stay as they are."""
    unfinished: int
    """Journals without a turn, which teach nothing."""

    def summary(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it."""
        runs = [{"run": item.run, "problem": item.problem, "device": item.device} for item in self.entered]
        return {"entered": runs, "known": self.known, "unfinished": self.unfinished}


def run_import(options: ImportOptions) -> ImportResult:
    """Enter all runs that are named, or none where one of them cannot be read: then `JournalError`."""
    archive = Archive(archive_path())
    there = {item.run for item in archive.read()}
    found: dict[str, ArchivedRun] = {}
    known = unfinished = 0
    for path in (journal for named in options.runs for journal in _journals(named)):
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
    if found:
        archive.add(*found.values())
    return ImportResult(tuple(found.values()), known, unfinished)


def _journals(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = [*journals_in(path), *journals_in(path / LOGS)]
    if not found:
        raise JournalError(f"{path} holds no journal of a run; give one that 'optimize' wrote, or its results folder")
    return found
