"""Which projects the user trusts, and with which settings: kept in the user's own configuration folder.

A project is a folder, by its real path. What is trusted are its settings as they were then, of both of its files: once
one of those that need trust has changed, none of them counts until the user trusts the project again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.files import config_folder, write_whole
from ..core.text import digest_of
from .app import commands
from .configuration import shown, tables_in

Settings = dict[str, Any]
"""'kernelwright.toml: [optimize] model' and what is written there."""


@dataclass(frozen=True)
class TrustedProject:
    """A project and its settings as the user has trusted them."""

    project: str
    """Its folder."""
    settings: Settings

    def changes(self, now: Mapping[str, Any]) -> list[str]:
        """What is no longer as it was, each in words; empty where all is."""
        before = self.settings
        return [
            *(f"{key} = {shown(now[key])} is new" for key in now if key not in before),
            *(f"{key} is gone" for key in before if key not in now),
            *(
                f"{key} was {shown(before[key])} and is {shown(now[key])}"
                for key in now
                if key in before and not _equal(before[key], now[key])
            ),
        ]


class TrustedProjects:
    """The user's trusted projects, a file for each."""

    def __init__(self) -> None:
        self._folder = config_folder() / "trusted"
        self._known: dict[Path, bool] = {}

    def allows(self, project: Path) -> bool:
        """Whether the settings in a project's files are those that the user has trusted."""
        if project not in self._known:
            trusted = self.find(project)
            self._known[project] = trusted is not None and not trusted.changes(guarded_settings(project))
        return self._known[project]

    def find(self, project: Path) -> TrustedProject | None:
        """What the user has trusted of a project, as it is now or as it was; None for nothing."""
        found = _read(self._file(project))
        return found if found is not None and found.project == str(project.resolve()) else None

    def all(self) -> list[TrustedProject]:
        """All of them, by folder."""
        found = (_read(path) for path in self._folder.glob("*.json"))
        return sorted(filter(None, found), key=lambda one: one.project)

    def add(self, project: Path) -> TrustedProject:
        """Trust a project with the settings that it has now. `OptionError` or `ResultsError` where that cannot be."""
        added = TrustedProject(str(project.resolve()), guarded_settings(project))
        content = json.dumps(dataclasses.asdict(added), indent=1, default=str) + "\n"
        write_whole(self._file(project), content, "the user's own configuration folder has to be writable")
        return added

    def remove(self, project: Path) -> bool:
        """Trust it no longer; False where it was not trusted."""
        path = self._file(project)
        present = path.exists()
        path.unlink(missing_ok=True)
        return present

    def _file(self, project: Path) -> Path:
        return self._folder / f"{digest_of(str(project.resolve()))}.json"


def guarded_settings(project: Path) -> Settings:
    """The settings in the files of this folder that only a trusted project may have. `OptionError` for a bad file."""
    known = commands()
    return {
        f"{table.path.name}: {setting.key}": setting.written
        for table in tables_in(project)
        for command, setting in table.settings()
        if any(
            setting.needs_trust(*fields[setting.name])
            for name, fields in known.items()
            if name[: len(command)] == command and setting.name in fields
        )
    }


def _read(path: Path) -> TrustedProject | None:
    try:
        said = json.loads(path.read_text())
        return TrustedProject(str(said["project"]), dict(said["settings"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are written alike: True is not 1."""
    return json.dumps(one, default=str) == json.dumps(other, default=str)
