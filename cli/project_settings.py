"""What a command says at its start of the files of a project, which may be another's than the user's."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .app import Command, FieldType
from .configuration import Setting, Source, shown
from .trusted_projects import TrustedProjects, guarded_settings


@dataclass(frozen=True)
class Configured:
    """What is set of a command's options, by name."""

    settings: dict[str, Setting] = field(default_factory=dict)
    """What counts."""
    refused: dict[str, Setting] = field(default_factory=dict)
    """What a project's file sets and may not: another source counts in its place."""


def configured(command: Command, fields: Mapping[str, FieldType], found: Sequence[Source]) -> Configured:
    """What is set of a command's options. Raises `OptionError` for a project's file that cannot be read."""
    result, trusted = Configured(), TrustedProjects()
    for name, (option, kind) in fields.items():
        for setting in filter(None, (source.find(command, name) for source in found)):
            if not setting.needs_trust(option, kind) or trusted.allows(setting.folder):
                result.settings[name] = setting
                break
            result.refused.setdefault(name, setting)
    return result


def told(found: Configured) -> Iterator[str]:
    """Yield a line for each project's file whose settings count, and one for each that sets what it may not."""
    for path, settings in _by_file(found.settings.values()):
        yield f"{near(path)} sets {', '.join(f'{setting.name} = {shown(setting.written)}' for setting in settings)}"
    for path, settings in _by_file(found.refused.values()):
        yield f"warning: {refusal(path, settings)}"


def refusal(path: Path, settings: list[Setting]) -> str:
    """Why settings of a project's file do not count, and what to do."""

    names, folder = _listed([setting.name for setting in settings]), shlex.quote(near(path.parent))
    trusted = TrustedProjects().find(path.parent)
    if trusted is None:
        return (
            f"{near(path)} sets {names}, which only a trusted project may: "
            f"run `kernelwright trust {folder}` if you trust it"
        )
    changes = "; ".join(trusted.changes(guarded_settings(path.parent)))
    return (
        f"{near(path)} sets {names}, and is not as you trusted it: {changes}: "
        f"run `kernelwright trust {folder}` if you trust it as it is"
    )


def near(path: Path) -> str:
    """A path as it is seen from the current folder, where it lies below; in quotes where a terminal could take it for
    more than a name."""
    seen = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return str(seen) if str(seen).isprintable() else repr(str(seen))


def _by_file(settings: Iterable[Setting]) -> Iterator[tuple[Path, list[Setting]]]:
    of_projects = sorted(
        (setting for setting in settings if setting.of_project), key=lambda one: (one.source, one.name)
    )
    for source, some in itertools.groupby(of_projects, key=lambda one: one.source):
        yield Path(source), list(some)


def _listed(names: list[str]) -> str:
    """'model', 'model and sandbox', 'api_base, model and sandbox'."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
