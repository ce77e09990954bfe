"""What a command is: a module with `Options`, `Plan`, `Result`, `plan(options, runtime)` and `run(plan, emit)`.

`plan` reads every option, and raises every mistake before anything starts. `run` sees no options. The module's
docstring is the command's help, its first line what the list of commands says. Optional names: `EXAMPLES` (arguments
for the help), `POSITIONAL` (options that are arguments on a command line) and `AGENTS` (true where an MCP server offers
it). From such a module come the command line with help and completion, the Python function, the MCP tool, JSON and
what configurations may set.

Modules of `commands/` are found by themselves, and those of other packages by entry points of the group
`kernelwright.commands`: the entry's name is the command's, with spaces for a group ('tune kernel').
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pkgutil
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core.events import Emit
    from .result import Result
    from .runtime import Runtime

ENTRY_POINTS = "kernelwright.commands"
NOTHING_FASTER = 3
"""The exit code of what finished and found nothing faster than what was there."""
NOT_SHOWN = {"shown": False}
"""Metadata of a plan's field that `--dry-run` does not show."""


@dataclass(frozen=True)
class Plan:
    """All that a run needs. Derive a frozen data class from it."""

    def to_json(self) -> dict[str, Any]:
        """The plan as plain data, for `--dry-run`: without what has no words, such as a function."""
        fields = [field for field in dataclasses.fields(self) if field.metadata.get("shown", True)]
        shown = {field.name: _plain(getattr(self, field.name)) for field in fields}
        return {name: value for name, value in shown.items() if value is not _HIDDEN}


@dataclass(frozen=True)
class Command:
    """A command by its name; its module is imported when more than its help is asked for."""

    path: tuple[str, ...]
    """('tune', 'kernel')."""
    module_name: str

    @property
    def name(self) -> str:
        """'tune_kernel', as Python and MCP name it."""
        return "_".join(self.path).replace("-", "_")

    @cached_property
    def help(self) -> str:
        """The docstring of the module, read from its file: importing it may take seconds."""
        spec = find_spec(self.module_name)
        assert spec is not None and spec.origin is not None, self.module_name
        with tokenize.open(spec.origin) as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.type == tokenize.STRING:
                    return inspect.cleandoc(ast.literal_eval(token.string))
        raise AssertionError(f"{self.module_name} has no docstring, which is its help")

    @cached_property
    def module(self) -> ModuleType:
        """The module."""
        return import_module(self.module_name)

    @property
    def options(self) -> Any:
        """The class of its options."""
        return self.module.Options

    @property
    def result(self) -> type[Result]:
        """The class of its results."""
        result: type[Result] = self.module.Result
        return result

    @property
    def examples(self) -> tuple[str, ...]:
        """Calls for the help, without the program's name."""
        return getattr(self.module, "EXAMPLES", ())

    @property
    def positional(self) -> tuple[str, ...]:
        """Options that a command line gives as arguments."""
        return getattr(self.module, "POSITIONAL", ())

    @property
    def for_agents(self) -> bool:
        """Whether an MCP server offers it."""
        return getattr(self.module, "AGENTS", False)

    def plan(self, options: Any, runtime: Runtime) -> Plan:
        """Return what would be done. Every mistake is a `KernelwrightError`."""
        plan: Plan = self.module.plan(options, runtime)
        return plan

    def run(self, plan: Plan, emit: Emit) -> Result:
        """Do it."""
        result: Result = self.module.run(plan, emit)
        return result

    def call(self, options: Any, emit: Emit) -> Result:
        """Plan, and do it."""
        from .runtime import Runtime

        with Runtime(emit) as runtime:
            return self.run(self.plan(options, runtime), emit)


def find_commands() -> list[Command]:
    """Return all commands, without importing their modules."""
    from importlib.metadata import entry_points

    package = import_module("..commands", __package__)
    found = list(_modules_of(package.__name__, package.__path__, ()))
    return found + [Command(tuple(point.name.split()), point.module) for point in entry_points(group=ENTRY_POINTS)]


def find_command(name: str) -> Command | None:
    """Return the command of a name as Python has it ('tune_kernel')."""
    return next((command for command in find_commands() if command.name == name), None)


def _modules_of(name: str, folders: Iterable[str], path: tuple[str, ...]) -> Iterator[Command]:
    for module in pkgutil.iter_modules(folders):
        inner = (*path, module.name.replace("_", "-"))
        if module.ispkg:
            yield from _modules_of(
                f"{name}.{module.name}", [str(Path(folder) / module.name) for folder in folders], inner
            )
        elif not module.name.startswith("_"):
            yield Command(inner, f"{name}.{module.name}")


_HIDDEN = object()


def _plain(value: Any) -> Any:
    from pydantic import BaseModel

    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else getattr(value, "in_words", _HIDDEN)
