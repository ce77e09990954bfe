"""The journal: what a run did, one JSON object a line, on disk before the run goes on."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from .errors import JournalError, ResultsError

Record = dict[str, Any]


def read_journal(path: Path) -> list[Record]:
    """The whole records of a journal. A torn last line is left out; any other damage is an error."""
    return split_records(path.read_bytes(), path)[0]


def split_records(data: bytes, path: Path) -> tuple[list[Record], int]:
    """The records in what a journal holds, one a line, and how many bytes they take.

    What lies behind them is a write that was cut off. `JournalError` names `path` and the line that is corrupt.
    """
    records: list[Record] = []
    end = 0
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        whole = line.endswith(b"\n")
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("no object")
        except (ValueError, RecursionError):
            if not whole:
                break
            raise JournalError(f"{path}, line {number} is corrupt; mend or remove that line, or start anew") from None
        if not whole:
            # Complete but for its line end, which the next append would glue to.
            break
        records.append(record)
        end += len(line)
    return records, end


def _lock(file: BinaryIO | FileIO, path: Path) -> None:
    """Of the journal itself, not of a file beside it: its name may change, and there is nothing to clean up."""
    from filelock import lock_descriptor

    if not lock_descriptor(file.fileno(), blocking=False):
        raise JournalError(f"{path} is in use by another run; wait for it, or choose another `results`")


def set_aside(*paths: Path) -> None:
    """Rename the journals of an earlier run, whatever their state, all by the same number: `name.1.jsonl`.

    `JournalError` while a run still writes one of them; then all stay.
    """
    present = [path for path in paths if path.exists()]
    with contextlib.ExitStack() as stack:
        for path in present:
            _lock(stack.enter_context(path.open("rb")), path)
        number = 1
        while any(path.with_suffix(f".{number}.jsonl").exists() for path in paths):
            number += 1
        for path in present:
            path.rename(path.with_suffix(f".{number}.jsonl"))


class Journal:
    """An append-only file that one process at a time writes.

    Opening it replays what is there (`records`) and cuts off a torn last line. Each append is on
    disk when it returns, so a killed run loses at most the record that it was writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what a full disk refuses must not come back at the next write.
            self._file = path.open("ab+", buffering=0)
        except OSError as error:
            raise ResultsError(f"cannot write {path}: {error.strerror}; choose another folder with `results`") from None
        try:
            _lock(self._file, path)
        except JournalError:
            self._file.close()
            raise
        self._file.seek(0)
        self.records, end = split_records(self._file.read(), path)
        self._file.truncate(end)

    def append(self, record: Record) -> None:
        """Write one record and wait until the disk has it."""
        line = (json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n").encode()
        end = self._file.seek(0, os.SEEK_END)
        try:
            written = self._file.write(line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(end)
            raise ResultsError(
                f"cannot write {self.path}: {error.strerror}; make room or choose another folder with `results`, "
                "then go on with `resume`"
            ) from None
        self.records.append(record)

    def of_kind(self, kind: str) -> Iterator[Record]:
        """The records whose field 'kind' is this."""
        return (record for record in self.records if record.get("kind") == kind)

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: tuple[type[BaseException], BaseException, TracebackType]) -> None:
        self.close()
