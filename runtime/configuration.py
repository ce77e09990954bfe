"""Options from the environment and from files: `KERNELWRIGHT_*`, `kernelwright.toml`, `[tool.kernelwright]`, and the
user's own `config.toml`.

A project's files may be someone else's: settings for which `Setting.needs_trust` holds count only if the user trusts
the project (`trusted_projects`). Keys are the Python names of the option classes' fields, and tables are named after
commands, so there is no list of them here.
"""

from __future__ import annotations

import difflib
import itertools
import os
import stat
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from ..core.errors import OptionError
from ..core.files import config_folder
from ..core.text import first_line
from .command import settable_options
from .options.option import check_range, details_of

CommandPath = tuple[str, ...]
"""('tune', 'kernel'), or the group ('tune',)."""
PREFIX = "KERNELWRIGHT_"
FILE, PYPROJECT = "kernelwright.toml", "pyproject.toml"
OWN_FILE = "config.toml"
"""The user's own configuration, in `config_folder()`."""
MAX_BYTES = 8 << 20
"""Maximum size of a file in bytes, since a project may belong to someone else."""
LONGEST = 80
"""Characters of a value that a message shows."""
OTHER_VARIABLES = frozenset(
    PREFIX + name
    for name in (
        *("ARCHIVE", "CACHE", "DISABLE", "EMBEDDINGS", "GEMM_CONFIGS", "LANGUAGES", "LOCKS", "LOG", "RECORD"),
        *("RUN", "SERVER_NICE", "SHARES", "SHOWN", "STORE", "WARM_SERVER"),
    )
)
"""Variables that are no options of commands."""
TAKEN = {"KERNELWRIGHT_ARCHIVE"}
"""Variables with another meaning than the option of their name, which needs the command in its variable."""


@dataclass(frozen=True)
class Setting:
    """A value as written, and its source."""

    written: Any
    key: str
    """'[tune.kernel] trials', or the name of a variable."""
    source: str
    """The file's path, or 'environment'."""
    folder: Path
    """Folder of relative paths."""
    of_project: bool = False
    """Whether the value is from a project's file, not from the user's own file or the environment."""

    @property
    def where(self) -> str:
        """Source and key, for a message."""
        return self.key if self.source == EnvironmentVariables.source else f"{self.source}: {self.key}"

    @property
    def name(self) -> str:
        """'[tune.kernel] trials' without its table: 'trials'."""
        return self.key.rpartition(" ")[2]

    def needs_trust(self, option: Field[Any], kind: Any) -> bool:
        """Whether only a trusted project may set it: such an option, or a path that leads out of the project."""
        if not self.of_project:
            return False
        return details_of(option).trusted or (_of_paths(kind) and not self._within())

    def _within(self) -> bool:
        """Whether all of its paths lie in the project, with links followed; a string may hold several paths."""
        text = [self.written, *self.written.split(",")] if isinstance(self.written, str) else self.written
        here = self.folder.resolve()
        try:
            paths = [here / str(item).strip() for item in (text if isinstance(text, list) else [text])]
            return all(path.resolve().is_relative_to(here) for path in paths)
        except (OSError, ValueError, RuntimeError):  # a loop of links, a null byte
            return False

    def value_for(self, field: Field[Any], kind: Any) -> Any:
        """Convert the value to the option's type. Raises `OptionError` with file and key if that fails."""
        kind, given = _without_none(kind), self.written
        if typing.get_origin(kind) is tuple and not isinstance(given, list):
            given = [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else [given]
        try:
            value = TypeAdapter(kind).validate_python(given)
        except ValidationError as error:
            message = error.errors()[0]["msg"]
            raise OptionError(f"{self.where} = {self.written!r}: {message[0].lower()}{message[1:]}") from None
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                check_range(field.name, value, details_of(field))
            except OptionError as error:
                raise OptionError(f"{self.where}: {error.message.replace('`', '')}", error.hint) from None
        return self._from_folder(value)

    def _from_folder(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._from_folder(item) for item in value)
        return self.folder / value if isinstance(value, Path) and self.folder != Path.cwd() else value


class OptionSource(Protocol):
    """Where options can be set."""

    def find(self, command: CommandPath, name: str) -> Setting | None:
        """Return the value for a command: its own, otherwise its group's, otherwise the common one."""


class EnvironmentVariables:
    """`KERNELWRIGHT_TUNE_KERNEL_TRIALS`, `KERNELWRIGHT_TUNE_TRIALS`, `KERNELWRIGHT_TRIALS`."""

    source = "environment"

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def find(self, command: CommandPath, name: str) -> Setting | None:
        """See `OptionSource`. An empty variable is not set."""
        for length in range(len(command), -1, -1):
            key = variable((*command[:length], name))
            if self._variables.get(key) and key not in TAKEN:
                return Setting(self._variables[key], key, self.source, Path.cwd())
        return None


@dataclass(frozen=True)
class Table:
    """The tables of one file."""

    path: Path
    content: Mapping[str, Any]
    prefix: str = ""
    """Name of the file's outermost table: 'tool.kernelwright' in a pyproject.toml."""
    of_project: bool = True

    def find(self, command: CommandPath, name: str) -> Setting | None:
        """See `OptionSource`."""
        for length in range(len(command), -1, -1):
            table: Any = self.content
            for part in command[:length]:
                table = table.get(part) if isinstance(table, dict) else None
            if isinstance(table, dict) and name in table and not isinstance(table[name], dict):
                key = self.key(command[:length], name)
                return Setting(table[name], key, str(self.path), self.path.parent, self.of_project)
        return None

    def settings(self, command: CommandPath = ()) -> Iterator[tuple[CommandPath, Setting]]:
        """All settings in the file, each with its command or group of commands."""
        content: Any = self.content
        for part in command:
            content = content[part]
        for name, value in content.items():
            if isinstance(value, dict):
                yield from self.settings((*command, name))
            else:
                key = self.key(command, name)
                yield command, Setting(value, key, str(self.path), self.path.parent, self.of_project)

    def key(self, command: CommandPath, name: str) -> str:
        """'[tune.kernel] trials'."""
        table = ".".join(filter(None, (self.prefix, *command)))
        return f"[{table}] {name}" if table else name


def variable(names: Sequence[str]) -> str:
    """The variable of an option: ('optimize', 'target_speedup') is KERNELWRIGHT_OPTIMIZE_TARGET_SPEEDUP."""
    return PREFIX + "_".join(names).upper().replace("-", "_")


def unknown_variables(variables: Iterable[str], command: CommandPath, names: Iterable[str]) -> Iterator[str]:
    """Yield a line for each `KERNELWRIGHT_*` that nothing reads, with the nearest name.

    `names` are the options of the running command. Only for other variables are all modules of commands imported.
    Nothing is reported if another package's command is broken.
    """
    found = {name for name in variables if name.startswith(PREFIX)} - OTHER_VARIABLES - _variables_of(command, names)
    if not found:
        return
    try:
        settable = settable_options()
    except OptionError:
        return
    known = OTHER_VARIABLES.union(*(_variables_of(path, fields) for path, fields in settable.items()))
    for name in sorted(found - known):
        near = difflib.get_close_matches(name, sorted(known), n=1)
        yield f"nothing reads the variable {name}{''.join(f'; the nearest is {other}' for other in near)}"


def _variables_of(command: CommandPath, names: Iterable[str]) -> set[str]:
    """Return the variables of a command's options, those of its group and the common ones."""
    return {variable((*command[:length], name)) for name in names for length in range(len(command) + 1)}


def sources() -> list[OptionSource]:
    """All sources, the one that counts most first. Raises `OptionError` for a file that is not TOML, or an unknown key.

    For each kind of project file, the nearest one in the current folder or above counts.
    """
    tables = [*_nearest(Path.cwd(), FILE), *_nearest(Path.cwd(), PYPROJECT)]
    own = _read(config_folder() / OWN_FILE)
    tables += [Table(config_folder() / OWN_FILE, own, of_project=False)] if own is not None else []
    _check(tables)
    return [EnvironmentVariables(os.environ), *tables]


def tables_in(folder: Path) -> list[Table]:
    """Return the contents of files in a project's own folder, without those above it. Raises as `sources`."""
    tables = [table for name in (FILE, PYPROJECT) if (table := _table(folder / name)) is not None]
    _check(tables)
    return tables


def shown(value: Any) -> str:
    """A value as written in a file, on one line, without control characters."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _check(tables: Sequence[Table]) -> None:
    """Raise `OptionError` for a table that no command has, and for a key that none of the table's commands has."""
    known = settable_options() if tables else {}
    for table in tables:
        _check_keys(table, table.content, (), known)


def _check_keys(
    table: Table, content: Mapping[str, Any], path: CommandPath, known: Mapping[CommandPath, Mapping[str, Any]]
) -> None:
    from ..corpus.names import nearest  # with it come the problems

    below = {command: fields for command, fields in known.items() if command[: len(path)] == path}
    names = {name for fields in below.values() for name in fields}
    children = {command[len(path)] for command in below if len(command) > len(path)}
    for key, value in content.items():
        where = f"{table.path}: {table.key(path, key)}"
        if not isinstance(value, dict):
            if key not in names:
                raise OptionError(f"{where} is not an option{nearest(key, names)}", "'kernelwright config' lists them")
        elif key in children:
            _check_keys(table, value, (*path, key), known)
        else:
            named = f"{table.path}: [{'.'.join(filter(None, (table.prefix, *path, key)))}]"
            raise OptionError(f"{named} is a table, and no command is called so{nearest(key, children)}")


def _nearest(folder: Path, name: str) -> Iterator[Table]:
    tables = (_table(place / name) for place in (folder, *folder.parents))
    yield from itertools.islice(filter(None, tables), 1)


def _table(path: Path) -> Table | None:
    """Return the contents of a project's file; None without one, and for a pyproject.toml without our table."""
    content = _read(path, "tool.kernelwright" if path.name == PYPROJECT else "")
    if content is None or path.name == FILE:
        return None if content is None else Table(path, content)
    own = content.get("tool", {}).get("kernelwright")
    return Table(path, own, "tool.kernelwright") if isinstance(own, dict) else None


def _read(path: Path, mention: str = "") -> dict[str, Any] | None:
    """Return the file's content; None if it cannot be read. A file without the `mention` is not ours."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # a link to a device would never end
            return None
        if about.st_size > MAX_BYTES:
            raise OptionError(f"{path} has {about.st_size >> 20} MB, which no configuration has")
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return None
    if mention not in text:
        return None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path} is not TOML: {first_line(error)}") from None


def _of_paths(kind: Any) -> bool:
    """Whether an option's type holds paths: `Path`, `Path | None`, `tuple[Path, ...]`."""
    return kind is Path or any(_of_paths(value) for value in typing.get_args(kind))


def _without_none(kind: Any) -> Any:
    """`int` for `int | None`: a file cannot say None."""
    if typing.get_origin(kind) in (UnionType, typing.Union):
        plain = [value for value in typing.get_args(kind) if value is not type(None)]
        return plain[0] if len(plain) == 1 else kind
    return kind
