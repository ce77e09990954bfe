"""Which projects the user trusts, and with which settings: kept in the user's own configuration folder.

A project is a folder, by its real path. Trust covers the current settings in both of its files: if one of those that
need trust changes, none of them counts until the user trusts the project again.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.files import config_folder, write_whole
from ..core.text import BAD_DATA, digest_of, listed
from .command import settable_options
from .configuration import CommandPath, OptionSource, Setting, shown, tables_in
from .options.option import FieldType

Settings = dict[str, Any]
"""'kernelwright.toml: [optimize] model' and what is written there."""


@dataclass(frozen=True)
class TrustedProject:
    """A project with its trusted settings."""

    project: str
    """The project's folder."""
    settings: Settings

    def changes(self, now: Mapping[str, Any]) -> list[str]:
        """Describe each setting that has changed since; empty if none has."""
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
        """The settings of a project that the user has trusted, current or outdated; None if there are none."""
        found = _read(self._file(project))
        return found if found is not None and found.project == str(project.resolve()) else None

    def all(self) -> list[TrustedProject]:
        """All of them, by folder."""
        found = (_read(path) for path in self._folder.glob("*.json"))
        return sorted(filter(None, found), key=lambda trusted: trusted.project)

    def add(self, project: Path) -> TrustedProject:
        """Trust a project with its current settings. Raises `OptionError` or `ResultsError` if that fails."""
        added = TrustedProject(str(project.resolve()), guarded_settings(project))
        content = json.dumps(dataclasses.asdict(added), indent=1, default=str) + "\n"
        write_whole(self._file(project), content, "the user's own configuration folder has to be writable")
        return added

    def remove(self, project: Path) -> bool:
        """Stop trusting it; return False if it was not trusted."""
        path = self._file(project)
        present = path.exists()
        path.unlink(missing_ok=True)
        return present

    def _file(self, project: Path) -> Path:
        return self._folder / f"{digest_of(str(project.resolve()))}.json"


def guarded_settings(project: Path) -> Settings:
    """The settings in the files of this folder that only a trusted project may have. `OptionError` for a bad file."""
    known = settable_options()
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
    except BAD_DATA:
        return None


def _equal(first: Any, second: Any) -> bool:
    """Whether two values are written alike: True is not 1."""
    return json.dumps(first, default=str) == json.dumps(second, default=str)


@dataclass(frozen=True)
class Configured:
    """Values of a command's options, by name."""

    settings: dict[str, Setting] = field(default_factory=dict)
    """Settings in effect."""
    refused: dict[str, Setting] = field(default_factory=dict)
    """Settings of a project's file that are not allowed. Another source takes precedence."""


def configured(command: CommandPath, fields: Mapping[str, FieldType], found: Sequence[OptionSource]) -> Configured:
    """Return the settings of a command's options. Raises `OptionError` for an unreadable project file."""
    result, trusted = Configured(), TrustedProjects()
    for name, (option, kind) in fields.items():
        for setting in filter(None, (source.find(command, name) for source in found)):
            if not setting.needs_trust(option, kind) or trusted.allows(setting.folder):
                result.settings[name] = setting
                break
            result.refused.setdefault(name, setting)
    return result


def messages(found: Configured) -> Iterator[str]:
    """Yield a line for each project file with settings in effect, and one for each with refused settings."""
    for path, settings in _by_file(found.settings.values()):
        yield f"{near(path)} sets {', '.join(f'{setting.name} = {shown(setting.written)}' for setting in settings)}"
    for path, settings in _by_file(found.refused.values()):
        yield f"warning: {refusal(path, settings)}"


def refusal(path: Path, settings: list[Setting]) -> str:
    """Return the reason why settings of a project's file are ignored, and what to do."""

    names, folder = listed([setting.name for setting in settings], "and"), shlex.quote(near(path.parent))
    trusted = TrustedProjects().find(path.parent)
    if trusted is None:
        return (
            f"{near(path)} sets {names}, which only a trusted project may: "
            f"run `kernelwright trust {folder}` if you trust it"
        )
    changes = "; ".join(trusted.changes(guarded_settings(path.parent)))
    return (
        f"{near(path)} sets {names}, and has changed since you trusted it: {changes}: "
        f"run `kernelwright trust {folder}` if you trust it as it is"
    )


def near(path: Path) -> str:
    """A path, relative to the current folder if it is below; in quotes if it has more than plain characters."""
    seen = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return str(seen) if str(seen).isprintable() else repr(str(seen))


def _by_file(settings: Iterable[Setting]) -> Iterator[tuple[Path, list[Setting]]]:
    of_projects = sorted(
        (setting for setting in settings if setting.of_project), key=lambda setting: (setting.source, setting.name)
    )
    for source, some in itertools.groupby(of_projects, key=lambda setting: setting.source):
        yield Path(source), list(some)
