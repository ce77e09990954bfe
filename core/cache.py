"""Cached results that only save time: measurements of a device, code that a compiler generated."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from .errors import ResultsError
from .keyed_store import KeyedStore
from .text import BAD_DATA

Entry = TypeVar("Entry")


class Cache(Generic[Entry]):
    """Entries of one type in one file, by key. Without a path nothing is stored.

    An entry that cannot be read counts as missing, and a failed write is ignored. Entries that another version wrote
    count as missing, and stay in the file for that version.
    """

    def __init__(self, path: Path | None, entry: type[Entry]) -> None:
        self._entry: TypeAdapter[Entry] = TypeAdapter(entry)
        self._rows: KeyedStore[str, Any] | None = None
        if path is not None:
            self._rows = KeyedStore(path, dict, lambda rows, _: rows, "", replaces_damaged=True)

    def get(self, key: str) -> Entry | None:
        """Return the entry, or None."""
        with contextlib.suppress(*BAD_DATA):
            if self._rows is not None and (found := self._rows.read().get(key)) is not None:
                return self._entry.validate_python(found)
        return None

    def put(self, key: str, entry: Entry) -> None:
        """Add or replace an entry."""
        if self._rows is None:
            return
        with contextlib.suppress(ResultsError):
            self._rows.update({key: self._entry.dump_python(entry, mode="json")})
