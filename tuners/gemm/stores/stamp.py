"""The versions with which the entries of engines' files were measured: a file beside them.

Engines refuse keys that they do not know, so versions cannot stand in their files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....core.files import write_whole
from ....core.text import BAD_DATA

STAMP = "kernelwright_versions.json"
_ENTRIES = "entries"
Versions = Mapping[str, str]


@dataclass(frozen=True)
class FileStamp:
    """The versions of a file's last run, and those of entries that were measured before it, by key."""

    versions: Versions = field(default_factory=dict)
    older: Mapping[str, Versions] = field(default_factory=dict)

    def of(self, key: str) -> Versions:
        """Return the versions of an entry; empty if they are unknown."""
        return self.older.get(key, self.versions)

    def others(self, package: str) -> dict[str, list[str]]:
        """Return the other versions of a package that entries were measured with ('' if unknown), with their keys."""
        found: dict[str, list[str]] = {}
        for key, versions in self.older.items():
            if (version := versions.get(package, "")) != self.versions.get(package):
                found.setdefault(version, []).append(key)
        return found


def older_entries(path: Path, package: str) -> Iterator[str]:
    """Say which entries of a file were measured with another version of a package than the last ones."""
    stamp = read_stamp(path.parent).get(path.name, FileStamp())
    for version, keys in stamp.others(package).items():
        yield (
            f"{path}: {', '.join(keys)} measured with {package} {version or 'of an unknown version'}, all else with "
            f"{stamp.versions.get(package, 'an unknown one')}; tune these again"
        )


def read_stamp(folder: Path) -> dict[str, FileStamp]:
    """Return the stamp of each file of a folder; none if it cannot be read."""
    try:
        found = json.loads((folder / STAMP).read_text())
    except BAD_DATA:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: _parsed(stamp) for name, stamp in found.items() if isinstance(stamp, dict)}


def write_stamp(folder: Path, stamp: Mapping[str, FileStamp]) -> None:
    """Write the stamps of a folder's files."""
    found = {name: {**file.versions, **({_ENTRIES: file.older} if file.older else {})} for name, file in stamp.items()}
    write_whole(folder / STAMP, json.dumps(found, indent=1, sort_keys=True) + "\n")


def _parsed(stamp: dict[str, Any]) -> FileStamp:
    entries = stamp.get(_ENTRIES)
    older = {key: _texts(item) for key, item in entries.items()} if isinstance(entries, dict) else {}
    return FileStamp(_texts(stamp), older)


def _texts(found: Any) -> Versions:
    return {name: text for name, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}
