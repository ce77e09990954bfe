"""Which files belong to a run."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from pathlib import Path

from ...core import JournalError, Record, read_journal
from ..searches import TUNING

_SET_ASIDE = re.compile(r"\.\d+$")
"""At the end of a file's stem: an earlier run, which a later one made room for."""
_PREFIX = "journal_"


@dataclass(frozen=True)
class RunFiles:
    """The journal of a run and what stands beside it."""

    journal: Path
    transcript: Path | None
    """Its exchanges with models; None where there were none."""
    searches: tuple[Path, ...]
    """Journals of the searches that its tools ran."""

    @property
    def all(self) -> tuple[Path, ...]:
        """All files of the run, the journal first."""
        return (self.journal, *([self.transcript] if self.transcript else []), *self.searches)


def run_files(path: Path) -> RunFiles:
    """The files of the run at `path`: a journal, a folder of results, or the folder of their logs.

    `JournalError` when there is no run, or, in a folder, more than one: earlier runs that were set aside have to be
    named, and do not count.
    """
    journal = _only_journal(path) if path.is_dir() else path
    if not journal.is_file():
        raise JournalError(f"there is no {path}; give the journal of a run, or its results folder")
    name, stem = journal.name, journal.stem
    number = found.group() if (found := _SET_ASIDE.search(stem)) else ""
    transcript = journal.with_name(name.replace(_PREFIX, "transcript_", 1))
    searches = journal.parent.glob(f"{glob.escape(stem.removesuffix(number))}{TUNING}*{number}.jsonl")
    return RunFiles(
        journal,
        transcript if transcript != journal and transcript.is_file() else None,
        tuple(sorted(path for path in searches if bool(number) == bool(_SET_ASIDE.search(path.stem)))),
    )


def records_of(path: Path) -> list[Record]:
    """The records of a journal; `JournalError` too when the file cannot be opened."""
    try:
        return read_journal(path)
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}; give the journal of a run") from None


def runs_in(path: Path) -> tuple[Path, ...]:
    """The journals of the runs at `path`: itself, or all of a results folder or of the folder of its logs.

    `JournalError` when there are none. Earlier runs that were set aside have to be named, and do not count.
    """
    if not path.is_dir():
        return (path,)
    found = tuple(
        journal
        for place in (path, path / "multiturn_logs")
        for journal in sorted(place.glob(f"{_PREFIX}*.jsonl"))
        if TUNING not in journal.name and not _SET_ASIDE.search(journal.stem)
    )
    if not found:
        raise JournalError(f"{path} holds no journal of a run; give one that 'optimize' wrote, or its results folder")
    return found


def _only_journal(folder: Path) -> Path:
    found = runs_in(folder)
    if len(found) > 1:
        raise JournalError(f"{folder} holds several runs; name the journal of one: {', '.join(map(str, found))}")
    return found[0]
