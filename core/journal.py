"""The journal of a run: one record per line, synced to disk before the run continues."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from .errors import JournalError
from .file_locks import hold
from .json_lines import ELSEWHERE, JsonLines, JsonObject, Line, split_lines
from .records import Record, parse_record
from .signatures import SIGNED, last_signature, own_key, signature

T = TypeVar("T", bound=Line)


def read_journal(path: Path) -> list[Record]:
    """Return the records of a journal, without records of unknown kinds.

    A torn last line is ignored. Any other damage raises `JournalError` with the line and the reason.
    """
    return parse_journal(path.read_bytes(), path)


def parse_journal(data: bytes, path: Path) -> list[Record]:
    """Return the records in the bytes of a journal; see `read_journal`."""
    return _records(split_lines(data, path)[0], path)


def is_own(path: Path) -> bool:
    """Return whether runs of this user wrote every line of a journal. Raises `JournalError` if it is corrupt."""
    return last_signature(split_lines(path.read_bytes(), path)[0], own_key()) is not None


def of(records: Iterable[Record], kind: type[T]) -> Iterator[T]:
    """Return the records of one type, in order."""
    return (record for record in records if isinstance(record, kind))


def set_aside(*paths: Path) -> None:
    """Rename the files of an earlier run, whatever their state, with one common number: `name.1.jsonl`.

    Raises `JournalError` if a run still writes one of them. Then none is renamed.
    """
    present = [path for path in paths if path.exists()]
    with contextlib.ExitStack() as stack:
        for path in present:
            hold(stack.enter_context(path.open("rb")), path, ELSEWHERE)
        number = 1
        while any(numbered(path, number).exists() for path in paths):
            number += 1
        for path in present:
            path.rename(numbered(path, number))


def numbered(path: Path, number: int | str) -> Path:
    """Return the name that a file of an earlier run has: `name.1.jsonl`."""
    return path.with_suffix(f".{number}{path.suffix}")


class Journal:
    """An append-only file of records with one writer at a time.

    Opening it reads the existing `records` and cuts off a torn last line. Each append is on disk when it returns, so a
    killed run loses at most the record that it was writing. Lines of unknown kinds stay in the file. Lines are signed,
    which marks them as this user's own, unless existing lines are not signed or `own` is False.
    """

    def __init__(self, path: Path, own: bool = True) -> None:
        self.path = path
        self._lines = JsonLines(path)
        try:
            lines = self._lines.replay()
            self.records = _records(lines, path)
        except JournalError:
            self.close()
            raise
        self._last = last_signature(lines, own_key()) if own else None

    @property
    def ours(self) -> bool:
        """Whether runs of this user wrote every line."""
        return self._last is not None

    def append(self, record: Record) -> None:
        """Write one record and sync it to disk."""
        said, last = record.to_json(), None
        if self._last is not None:
            last = signature(said, self._last, own_key())
            said = {**said, SIGNED: last}
        self._lines.append(said)
        self._last = last
        self.records.append(record)

    def of(self, kind: type[T]) -> Iterator[T]:
        """The records of one type, in order."""
        return of(self.records, kind)

    def close(self) -> None:
        """Close the file and release its lock."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: tuple[type[BaseException], BaseException, TracebackType]) -> None:
        self.close()


def _records(lines: Iterable[JsonObject], path: Path) -> list[Record]:
    found = (parse_record(line, path, number) for number, line in enumerate(lines, start=1))
    return [record for record in found if record is not None]
