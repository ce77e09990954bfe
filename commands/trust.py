"""Trust the current settings in a project's own files.

A project's files may be someone else's. Until you trust a project, its kernelwright.toml and pyproject.toml may not set
the model, where keys are sent, the sandbox, limits, the server's folder, code that runs, the required proof, or a
path outside the project. If one of these settings changes, the project must be trusted again.

Exit codes: 0 done, 1 there is nothing to trust or to remove, 2 wrong usage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core import OptionError
from ..core.events import Emit
from ..runtime import command, result
from ..runtime.configuration import FILE, PYPROJECT, shown, tables_in
from ..runtime.options.option import Options as BaseOptions
from ..runtime.options.option import described, option
from ..runtime.runtime import Runtime
from ..runtime.trusted_projects import TrustedProject, TrustedProjects, guarded_settings

EXAMPLES = ("trust .", "trust --list", "trust --remove ~/kernels")
POSITIONAL = ("project",)


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Trust the current settings in a project's own files."""

    project: Path | None = field(
        default=None,
        kw_only=False,
        metadata=described("The folder of a kernelwright.toml, or of a pyproject.toml.", metavar="DIR"),
    )
    list: bool = option(
        False, "List the trusted projects and their changed settings, as without a DIR.", settable=False
    )
    remove: bool = option(False, "Stop trusting the project.", settable=False)

    def check(self) -> None:
        """Raise `OptionError` for options that contradict each other."""
        super().check()
        if self.list and (self.remove or self.project is not None):
            raise OptionError("--list takes neither DIR nor --remove", "leave one of them out")
        if self.project is None and self.remove:
            raise OptionError("--remove needs a DIR", "`kernelwright trust --list` shows the trusted projects")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The project that is trusted, or no longer is; None to list all."""

    project: Path | None
    remove: bool
    settings: Mapping[str, Any]
    """Settings of the project that count only if it is trusted."""


class Result(result.Result):
    """The project that was trusted or removed, or all trusted projects."""

    record: result.ForPython[dict[str, Any]]
    messages: result.ForPython[Sequence[str]]
    done: result.ForPython[bool] = True
    """Whether there was something to trust, or to remove."""

    def to_json(self) -> dict[str, Any]:
        """`project` with `settings` or `removed`; or `projects`, each with its changes."""
        plain: dict[str, Any] = json.loads(json.dumps(self.record, default=str))
        return plain

    @property
    def exit_code(self) -> int:
        """1 if there was nothing to trust or to remove."""
        return 0 if self.done else 1

    def lines(self) -> Iterator[str]:
        """Each project, and its settings that need trust."""
        yield from self.messages


def plan(options: Options, runtime: Runtime) -> Plan:
    """Read the files of the project."""
    project, settings = options.project, {}
    if project is not None and not options.remove:
        if not project.is_dir():
            raise OptionError(f"{project} is not a folder", "name the one with the kernelwright.toml")
        if not tables_in(project):
            raise OptionError(
                f"{project} has no {FILE}, and no [tool.kernelwright] in a {PYPROJECT}", "name the folder that has"
            )
        settings = guarded_settings(project)
    return Plan(project, options.remove, settings)


def run(plan: Plan, emit: Emit) -> Result:
    """Trust the project, stop trusting it, or list all."""
    project, known = plan.project, TrustedProjects()
    if project is None:
        return _listed(known.all())
    path = str(project.resolve())
    if plan.remove:
        removed = known.remove(project)
        message = f"{path} {'is no longer' if removed else 'was not'} trusted"
        return Result(record={"project": path, "removed": removed}, messages=[message], done=removed)
    if not plan.settings:
        message = f"{project} sets nothing that needs trust"
        return Result(record={"project": path, "settings": {}}, messages=[message], done=False)
    added = known.add(project)
    return Result(record=vars(added), messages=[f"trusted: {added.project}", *_settings(added)])


def _listed(trusted: Sequence[TrustedProject]) -> Result:
    records, messages = [], []
    for project in trusted:
        changes = _changes(project)
        records.append({**vars(project), "changes": changes})
        state = f" (not in force: {'; '.join(changes)})" if changes else ""
        messages += [f"{project.project}{state}", *_settings(project)]
    return Result(record={"projects": records}, messages=messages or ["no project is trusted"])


def _changes(trusted: TrustedProject) -> Sequence[str]:
    try:
        return trusted.changes(guarded_settings(Path(trusted.project)))
    except OptionError as error:
        return [error.message]


def _settings(trusted: TrustedProject) -> Iterator[str]:
    return (f"  {key} = {shown(value)}" for key, value in trusted.settings.items())
