"""What is measured once and remembered: one JSON file of entries by name, written whole."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from ...core import ResultsError
from ...core.files import write_whole


class MeasurementCache:
    """Entries of one file; without a file nothing is remembered.

    A file that is gone or spoiled has no entries, and one that cannot be written stays as it is: what is remembered
    only saves time. Of two processes that write at once, one's entry may be lost, and is measured again.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def get(self, key: str) -> Any:
        """The entry, or None."""
        return self._read().get(key)

    def put(self, key: str, entry: Any) -> None:
        """Add an entry or replace it."""
        if self._path is None:
            return
        with contextlib.suppress(ResultsError, OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps({**self._read(), key: entry}, indent=1))

    def _read(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            if self._path is not None and isinstance(found := json.loads(self._path.read_text()), dict):
                return found
        return {}
