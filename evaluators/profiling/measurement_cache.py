"""Measurements that are made once: one JSON file of entries by name, written atomically."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from ...core import ResultsError
from ...core.files import write_whole


class MeasurementCache:
    """The entries of one file; without a path nothing is stored.

    A missing or corrupt file has no entries, and write errors are ignored: the cache only saves time. If two processes
    write at once, one entry may be lost, and is measured again.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def get(self, key: str) -> Any:
        """Return the entry, or None."""
        return self._read().get(key)

    def put(self, key: str, entry: Any) -> None:
        """Add or replace an entry."""
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
