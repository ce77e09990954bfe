"""`kernelwright trust`: which projects' files may decide where keys go, what code runs and how it is contained."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .guard import guarded
from .help_examples import with_examples
from .parameters import JsonOption

if TYPE_CHECKING:
    from .trusted_projects import TrustedProject


@with_examples("trust .", "trust --list", "trust --remove ~/kernels")
def trust(
    project: Annotated[
        Path | None,
        typer.Argument(
            help="The folder of a kernelwright.toml, or of a pyproject.toml.", metavar="DIR", show_default=False
        ),
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List the trusted projects, as without a DIR; say what has changed.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Trust the project no longer.")] = False,
    json: JsonOption = False,
) -> None:
    """Let a project's own files set every option, as they set them now.

    What lies in a project may be another's. Untrusted, its kernelwright.toml and pyproject.toml may not set the model,
    where keys go, the sandbox, limits, the folder of the server, code that runs, what counts as a proof, or a path out.
    A project whose file changes one of these has to be trusted again.

    Exit codes: 0 done, 1 there is nothing to trust or to remove, 2 wrong usage.
    """

    def work() -> int:
        from ..core.errors import OptionError

        if list_all and (remove or project is not None):
            raise OptionError("--list takes neither DIR nor --remove", "leave one of them out")
        if project is None and remove:
            raise OptionError("--remove needs a DIR", "`kernelwright trust --list` shows which there are")
        if project is None:
            return _list(json)
        return _remove(project, json) if remove else _add(project, json)

    raise typer.Exit(guarded(work))


def _add(project: Path, json: bool) -> int:
    from ..core.errors import OptionError
    from .configuration import FILE, PYPROJECT, tables_in
    from .trusted_projects import TrustedProjects, guarded_settings

    if not project.is_dir():
        raise OptionError(f"{project} is no folder", "name the one with the kernelwright.toml")
    if not tables_in(project):
        raise OptionError(
            f"{project} has no {FILE}, and no [tool.kernelwright] in a {PYPROJECT}", "name the folder that has"
        )
    if not guarded_settings(project):
        _tell(json, {"project": str(project.resolve()), "settings": {}}, [f"{project} sets nothing that needs trust"])
        return 1
    added = TrustedProjects().add(project)
    _tell(json, _record(added), [f"trusted: {added.project}", *_lines(added)])
    return 0


def _remove(project: Path, json: bool) -> int:
    from .trusted_projects import TrustedProjects

    removed, path = TrustedProjects().remove(project), str(project.resolve())
    _tell(json, {"project": path, "removed": removed}, [f"{path} {'is no longer' if removed else 'was not'} trusted"])
    return 0 if removed else 1


def _list(json: bool) -> int:
    from .trusted_projects import TrustedProjects

    found = [(item, _changes(item)) for item in TrustedProjects().all()]
    lines = []
    for one, changes in found:
        state = f" (not in force: {'; '.join(changes)})" if changes else ""
        lines += [f"{one.project}{state}", *_lines(one)]
    _tell(json, {"projects": [_record(*item) for item in found]}, lines or ["no project is trusted"])
    return 0


def _changes(trusted: TrustedProject) -> list[str]:
    from ..core.errors import OptionError
    from .trusted_projects import guarded_settings

    try:
        return trusted.changes(guarded_settings(Path(trusted.project)))
    except OptionError as error:
        return [error.message]


def _lines(trusted: TrustedProject) -> list[str]:
    from .configuration import shown

    return [f"  {key} = {shown(value)}" for key, value in trusted.settings.items()]


def _record(trusted: TrustedProject, changes: list[str] | None = None) -> dict[str, Any]:
    record: dict[str, Any] = {"project": trusted.project, "settings": trusted.settings}
    return record if changes is None else {**record, "changes": changes}


def _tell(json: bool, record: dict[str, Any], lines: list[str]) -> None:
    typer.echo(json_module.dumps(record, default=str) if json else "\n".join(lines))
