"""An append-only file with one JSON object per line. Each line is synced before its writer continues."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from .errors import JournalError, ResultsError
from .file_locks import hold, wait_for_lock
from .files import write_whole

JsonObject = dict[str, Any]
ELSEWHERE = "choose another folder with `results`"


class Line(BaseModel):
    """A record of a journal. Its `kind` selects the class that reads it."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def to_json(self) -> JsonObject:
        """Return the JSON object that is written to the journal."""
        return self.model_dump(mode="json", by_alias=True)


class JsonLines:
    """A file with one writer at a time. Raises `JournalError` if another process writes it.

    A killed process loses at most the line that it was writing. `elsewhere` is a hint in errors.
    """

    def __init__(self, path: Path, elsewhere: str = ELSEWHERE) -> None:
        self.path = path
        self._elsewhere = elsewhere
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: data that a full disk refused must not be written by the next write.
            self._file = path.open("ab+", buffering=0)
        except OSError as error:
            raise ResultsError(f"cannot write {path}: {error.strerror}; {elsewhere}") from None
        try:
            hold(self._file, path, elsewhere)
        except JournalError:
            self._file.close()
            raise

    def replay(self) -> list[JsonObject]:
        """Return the objects, and cut off a torn last line. Raises `JournalError` for any other corrupt line."""
        self._file.seek(0)
        objects, end = split_lines(self._file.read(), self.path)
        self._file.truncate(end)
        return objects

    def append(self, said: JsonObject) -> None:
        """Write one object and sync it to disk."""
        line = (json.dumps(said, separators=(",", ":"), allow_nan=False) + "\n").encode()
        end = self._file.seek(0, os.SEEK_END)
        try:
            written = self._file.write(line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(end)
            raise ResultsError(
                f"cannot write {self.path}: {error.strerror}; make room or {self._elsewhere}, then go on with `resume`"
            ) from None
        self._require_place()

    def _require_place(self) -> None:
        """Raise `ResultsError` where the file was deleted or replaced meanwhile; another one keeps what was written."""
        try:
            there = self.path.stat()
            if os.path.samestat(there, os.fstat(self._file.fileno())):
                return
            what, kept = "replaced", self.path.with_name(f"{self.path.stem}.kept{self.path.suffix}")
        except OSError:
            what, kept = "deleted", self.path
        self._file.seek(0)
        write_whole(kept, self._file.read(), self._elsewhere)
        raise ResultsError(f"{self.path} was {what} during the run; all of it is kept in {kept}", "go on with `resume`")

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: tuple[type[BaseException], BaseException, TracebackType]) -> None:
        self.close()


def split_lines(data: bytes, path: Path) -> tuple[list[JsonObject], int]:
    """Return the objects in a file's bytes, and the number of bytes that they take.

    The remaining bytes are an interrupted write. Raises `JournalError` with `path` and the line if one is corrupt.
    """
    objects: list[JsonObject] = []
    end = 0
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        whole = line.endswith(b"\n")
        try:
            found = json.loads(line)
            if not isinstance(found, dict):
                raise ValueError("no object")
        except (ValueError, RecursionError):
            if not whole:
                break
            raise JournalError(f"{path}, line {number} is corrupt; fix or remove that line, or start again") from None
        if not whole:
            # Complete except for its line end, so the next append would continue this line.
            break
        objects.append(found)
        end += len(line)
    return objects, end


def append_lines(path: Path, lines: Iterable[str], advice: str) -> None:
    """Append lines to a file that several processes extend, and sync it.

    A torn line of a killed process does not merge with the next one, and a failed write leaves nothing. Raises
    `ResultsError` with the advice if the file cannot be written.
    """
    data = "".join(f"{line}\n" for line in lines).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as file:
            wait_for_lock(file.fileno())
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            whole = data if file.read(1) in (b"", b"\n") else b"\n" + data
            try:
                if file.write(whole) != len(whole):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise
    except OSError as error:
        raise ResultsError(f"cannot write {path}: {error.strerror}; {advice}") from None
