"""An append-only file with one JSON object a line, each on disk before its writer goes on."""

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

JsonObject = dict[str, Any]
ELSEWHERE = "choose another folder with `results`"


class Line(BaseModel):
    """A record of a journal. Each has a `kind` of its own, by which it is read back."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def to_json(self) -> JsonObject:
        """The object that stands in the journal."""
        return self.model_dump(mode="json", by_alias=True)


class JsonLines:
    """A file that one process at a time writes; `JournalError` while another does.

    A killed process loses at most the line that it was writing. `elsewhere` says in errors how to move the file.
    """

    def __init__(self, path: Path, elsewhere: str = ELSEWHERE) -> None:
        self.path = path
        self._elsewhere = elsewhere
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what a full disk refuses must not come back at the next write.
            self._file = path.open("ab+", buffering=0)
        except OSError as error:
            raise ResultsError(f"cannot write {path}: {error.strerror}; {elsewhere}") from None
        try:
            hold(self._file, path, elsewhere)
        except JournalError:
            self._file.close()
            raise

    def replay(self) -> list[JsonObject]:
        """What the file holds. Cuts off a torn last line; `JournalError` names any other line that is corrupt."""
        self._file.seek(0)
        objects, end = split_lines(self._file.read(), self.path)
        self._file.truncate(end)
        return objects

    def append(self, said: JsonObject) -> None:
        """Write one object and wait until the disk has it."""
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

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: tuple[type[BaseException], BaseException, TracebackType]) -> None:
        self.close()


def split_lines(data: bytes, path: Path) -> tuple[list[JsonObject], int]:
    """The objects in what such a file holds, and how many bytes they take.

    What lies behind them is a write that was cut off. `JournalError` names `path` and the line that is corrupt.
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
            # Complete but for its line end, which the next append would glue to.
            break
        objects.append(found)
        end += len(line)
    return objects, end


def append_lines(path: Path, lines: Iterable[str], advice: str) -> None:
    """Append lines to a file that several processes extend, on disk when this returns.

    A line that a killed process left torn does not swallow the next one, and nothing stays of a write that fails.
    Raises `ResultsError`, with the advice, where the file cannot be written.
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
