"""Options from the environment and from files: `KERNELWRIGHT_*`, `kernelwright.toml`, `[tool.kernelwright]`.

The keys are the fields of the option classes, by their Python names. There is no list of them here: a command's
function knows its fields (`with_options`), and the tables are named as the commands are.
"""

from __future__ import annotations

import os
import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Protocol

from ..api.options.option import check_range, details_of
from ..core.errors import OptionError

PREFIX = "KERNELWRIGHT_"
FILE, PYPROJECT = "kernelwright.toml", "pyproject.toml"
TAKEN = {"KERNELWRIGHT_ARCHIVE"}
"""Variables that mean something else than the option of their name; that option's command makes its own unambiguous."""

Command = tuple[str, ...]
"""('tune', 'kernel')."""
FieldType = tuple[Field[Any], Any]


@dataclass(frozen=True)
class Setting:
    """A value as it was written, and where."""

    written: Any
    key: str
    """'[tune.kernel] trials', or the name of a variable."""
    source: str
    """The file's path, or 'environment'."""
    folder: Path
    """What relative paths start from."""

    @property
    def where(self) -> str:
        """Source and key, for a message."""
        return self.key if self.source == Environment.source else f"{self.source}: {self.key}"

    def value_for(self, field: Field[Any], kind: Any) -> Any:
        """The value as the option's type wants it; raises `OptionError`, which names file and key, if it cannot be."""
        from pydantic import TypeAdapter, ValidationError

        kind, given = _without_none(kind), self.written
        if typing.get_origin(kind) is tuple and not isinstance(given, list):
            given = [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else [given]
        try:
            value = TypeAdapter(kind).validate_python(given)
        except ValidationError as error:
            told = error.errors()[0]["msg"]
            raise OptionError(f"{self.where} = {self.written!r}: {told[0].lower()}{told[1:]}") from None
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                check_range(field.name, value, details_of(field))
            except OptionError as error:
                raise OptionError(f"{self.where}: {error.message.replace('`', '')}", error.hint) from None
        return self._from_folder(value)

    def _from_folder(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._from_folder(one) for one in value)
        return self.folder / value if isinstance(value, Path) and self.folder != Path.cwd() else value


class Source(Protocol):
    """Where options can be set."""

    def find(self, command: Command, name: str) -> Setting | None:
        """What is set for a command: its own value before that of its group, and that before the common one."""


class Environment:
    """`KERNELWRIGHT_TUNE_KERNEL_TRIALS`, `KERNELWRIGHT_TUNE_TRIALS`, `KERNELWRIGHT_TRIALS`."""

    source = "environment"

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def find(self, command: Command, name: str) -> Setting | None:
        """See `Source`. An empty variable is not set."""
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
    """How the file calls the outermost table: 'tool.kernelwright' in a pyproject.toml."""

    def find(self, command: Command, name: str) -> Setting | None:
        """See `Source`."""
        for length in range(len(command), -1, -1):
            table: Any = self.content
            for part in command[:length]:
                table = table.get(part) if isinstance(table, dict) else None
            if isinstance(table, dict) and name in table and not isinstance(table[name], dict):
                key = self.key(command[:length], name)
                return Setting(table[name], key, str(self.path), self.path.parent)
        return None

    def key(self, command: Command, name: str) -> str:
        """'[tune.kernel] trials'."""
        table = ".".join(filter(None, (self.prefix, *command)))
        return f"[{table}] {name}" if table else name


def variable(names: Sequence[str]) -> str:
    """The variable of an option: ('optimize', 'target_speedup') is KERNELWRIGHT_OPTIMIZE_TARGET_SPEEDUP."""
    return PREFIX + "_".join(names).upper().replace("-", "_")


def sources() -> list[Source]:
    """All sources, the one that counts most first. Raises `OptionError` for a file that is no TOML, or an unknown key.

    Of each kind of file the nearest one counts, in the current folder or above it.
    """
    tables = [*_nearest(Path.cwd(), FILE), *_nearest(Path.cwd(), PYPROJECT)]
    if tables:
        from .command_tree import check_keys

        for table in tables:
            check_keys(table)
    return [Environment(os.environ), *tables]


def configured(command: Command, fields: Mapping[str, FieldType], found: Sequence[Source]) -> dict[str, Setting]:
    """What is set of a command's options, by name."""
    settings = {}
    for name in fields:
        setting = next(filter(None, (source.find(command, name) for source in found)), None)
        if setting is not None:
            settings[name] = setting
    return settings


def _nearest(folder: Path, name: str) -> Iterator[Table]:
    for place in (folder, *folder.parents):
        path = place / name
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError):
            continue
        if name == PYPROJECT and "tool.kernelwright" not in text:
            continue  # somebody else's, whatever is wrong with it
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise OptionError(f"{path} is no TOML: {error}") from None
        if name == FILE:
            yield Table(path, content)
            return
        own = content.get("tool", {}).get("kernelwright")
        if isinstance(own, dict):
            yield Table(path, own, "tool.kernelwright")
            return


def _without_none(kind: Any) -> Any:
    """`int` for `int | None`: a file cannot say None."""
    if typing.get_origin(kind) in (UnionType, typing.Union):
        plain = [one for one in typing.get_args(kind) if one is not type(None)]
        return plain[0] if len(plain) == 1 else kind
    return kind
