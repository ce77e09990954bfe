"""Results that save time and that nothing depends on: measurements of a device, code that a compiler generated."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from .errors import ResultsError
from .keyed_store import KeyedStore

Entry = TypeVar("Entry")


class Cache(Generic[Entry]):
    """Entries of one type in one file, by key; without a path nothing is kept.

    What cannot be read is missing, and what cannot be written is not kept. An entry of another version's type is
    missing, and stays for the other version.
    """

    def __init__(self, path: Path | None, entry: type[Entry]) -> None:
        self._entry: TypeAdapter[Entry] = TypeAdapter(entry)
        self._rows: KeyedStore[str, Any] | None = None
        if path is not None:
            self._rows = KeyedStore(path, dict, lambda rows, _: rows, "", replaces_damaged=True)

    def get(self, key: str) -> Entry | None:
        """Return the entry, or None."""
        with contextlib.suppress(OSError, ValueError, TypeError, ValidationError):
            if self._rows is not None and (found := self._rows.read().get(key)) is not None:
                return self._entry.validate_python(found)
        return None

    def put(self, key: str, entry: Entry) -> None:
        """Add or replace an entry."""
        if self._rows is None:
            return
        with contextlib.suppress(ResultsError):
            self._rows.update({key: self._entry.dump_python(entry, mode="json")})
