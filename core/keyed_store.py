"""Rows of one type by key, in a JSON file that several processes may change."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from .errors import KernelwrightError
from .file_locks import locked
from .files import read_text, write_whole
from .text import BAD_DATA

Key = TypeVar("Key")
Row = TypeVar("Row")


class KeyedStore(Generic[Key, Row]):
    """A file of rows; a missing file is empty. Changes are merged under a lock and written atomically.

    `parse` turns a document into rows, and raises `KernelwrightError`, `ValueError`, `KeyError` or `TypeError` for an
    invalid one. `dump` turns rows and the previous document (`{}` for none) into the next document. `advice` ends the
    error for a file that cannot be written. `lock` is the lock file, by default in the same folder. With
    `replaces_damaged` an unreadable file is replaced; otherwise it is an error.
    """

    def __init__(
        self,
        path: Path,
        parse: Callable[[Any], dict[Key, Row]],
        dump: Callable[[dict[Key, Row], Any], Any],
        advice: str,
        lock: Path | None = None,
        replaces_damaged: bool = False,
    ) -> None:
        self.path = path
        self._parse = parse
        self._dump = dump
        self._advice = advice
        self._lock = lock or path.with_name(".lock")
        self._replaces_damaged = replaces_damaged

    def read(self) -> dict[Key, Row]:
        """Return all rows. Raises what `parse` raises, `ValueError` for invalid JSON, and `OSError`."""
        document = self._document()
        return {} if document is None else self._parse(document)

    def update(self, changes: Mapping[Key, Row | None]) -> dict[Key, Row]:
        """Add or replace rows, and remove rows that are None. Return all rows.

        Raises `ResultsError` if the file cannot be written, and what `read` raises.
        """
        with locked(self._lock, self._advice):
            document, rows = self._before()
            for key, row in changes.items():
                rows.pop(key, None)
                if row is not None:
                    rows[key] = row
            write_whole(self.path, json.dumps(self._dump(rows, document), indent=1) + "\n", self._advice)
            return rows

    def _before(self) -> tuple[Any, dict[Key, Row]]:
        """Return the current document and its rows."""
        try:
            document = self._document()
            return ({}, {}) if document is None else (document, self._parse(document))
        except (KernelwrightError, *BAD_DATA):
            if not self._replaces_damaged:
                raise
            return {}, {}

    def _document(self) -> Any:
        """Return the parsed JSON, or None without a file."""
        try:
            return json.loads(read_text(self.path))
        except FileNotFoundError:
            return None
