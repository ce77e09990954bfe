"""A command is a module with `Options`, `Plan`, `Result`, `plan(options, runtime)` and `run(plan, emit)`.

`plan` reads every option, and raises all usage errors before anything starts. `run` sees no options. The module's
docstring is the command's help; the list of commands shows its first line. The command line with help and completion,
the Python function, the MCP tool, JSON and the keys of configurations are derived from the module. `Declared` lists its
optional names.

Modules of `commands/` are found automatically, and those of other packages by entry points of the group
`kernelwright.commands`: the entry's name is the command's, with spaces for a group ('tune kernel').
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pkgutil
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from ..entry_points import EntryGroup, package_of
from .options.option import FieldType, made_of, settable_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ..core.events import Emit
    from .options.option import Options
    from .result import Result
    from .runtime import Runtime

ENTRIES = EntryGroup("kernelwright.commands", "command", ModuleType, "module with a command")
MEMBERS = ("Options", "Result", "plan", "run")
"""Attributes of every command's module."""
NOTHING_FASTER = 3
"""Exit code of a command that finished without finding anything faster; see `search_code`."""
NOT_SHOWN = {"shown": False}
"""Metadata of a plan's field that `--dry-run` does not show."""


def search_code(verified: bool, faster: bool) -> int:
    """Return the exit code of a command that looks for something faster: 0 if it was found, 1 if nothing is correct."""
    return 1 if not verified else 0 if faster else NOTHING_FASTER


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs. Derive a frozen data class from it."""

    @classmethod
    def of(cls, options: Options, **own: Any) -> Self:
        """Return a plan of these values; its other fields have the values of the options of the same names."""
        return made_of(cls, options, **own)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain data for `--dry-run`, without functions and the like."""
        fields = [field for field in dataclasses.fields(self) if field.metadata.get("shown", True)]
        shown = {field.name: plain(getattr(self, field.name)) for field in fields}
        return {name: value for name, value in shown.items() if value is not _HIDDEN}


@dataclass(frozen=True)
class Declared:
    """Optional declarations of a command's module, there in capitals: `EXAMPLES`, `POSITIONAL`, ..."""

    examples: tuple[str, ...] = ()
    """Calls for the help, without the program's name."""
    positional: tuple[str, ...] = ()
    """Options that are arguments on a command line."""
    verbose: bool = False
    """Whether `--verbose` shows more."""
    to_stderr: bool = False
    """Whether only the result goes to standard output, such as a list for a pipe."""
    agents: bool | tuple[str, ...] = False
    """Whether an MCP server offers the command, and with which options: all, or only these."""
    also: tuple[str, tuple[str, ...]] = ("", ())
    """Another command's name in Python, and the names of its options that this command line also has."""
    interrupted: str = ""
    """Message after Ctrl-C; by default how to resume, if that is an option."""


@dataclass(frozen=True)
class Command:
    """A command by its name; its module is imported when more than its help is asked for."""

    path: tuple[str, ...]
    """('tune', 'kernel')."""
    module_name: str
    point: EntryPoint | None = None
    """The entry point of a command from another package."""

    @property
    def name(self) -> str:
        """'tune_gemm', as Python and MCP name it."""
        names: Mapping[tuple[str, ...], str] = import_module("..commands", __package__).NAMES
        return names.get(self.path, "_".join(self.path).replace("-", "_"))

    @cached_property
    def help(self) -> str:
        """The docstring of the module, read from its file, since importing it may take seconds."""
        found = _docstring(self.module_name)
        if found is None and self.point is not None:  # commands of other packages are listed anyway
            return f"(cannot be read: {self.point.value} of {package_of(self.point)})"
        assert found is not None, f"{self.module_name} has no docstring, which is its help"
        return found

    @cached_property
    def module(self) -> ModuleType:
        """The module. Raises `OptionError` for another package's that cannot be loaded, or is not a command."""
        if self.point is None:
            return import_module(self.module_name)
        module = ENTRIES.load(self.point)
        if missing := [name for name in MEMBERS if not hasattr(module, name)]:
            raise ENTRIES.broken(self.point, f"is not a command: it has no {missing[0]}")
        return module

    @property
    def options(self) -> Any:
        """The class of its options."""
        return self.module.Options

    @property
    def result(self) -> type[Result]:
        """The class of its results."""
        result: type[Result] = self.module.Result
        return result

    @cached_property
    def declared(self) -> Declared:
        """The module's optional names."""
        names = [field.name for field in dataclasses.fields(Declared) if hasattr(self.module, field.name.upper())]
        return Declared(**{name: getattr(self.module, name.upper()) for name in names})

    @property
    def settable(self) -> dict[str, FieldType]:
        """The options that a configuration may set."""
        other, names = self.declared.also
        more = find_command(other).settable if other else {}
        return {**{name: more[name] for name in names}, **settable_of(self.options, without=self.declared.positional)}

    def plan(self, options: Any, runtime: Runtime) -> Plan:
        """Return the plan. Raises `KernelwrightError` for usage errors."""
        plan: Plan = self.module.plan(options, runtime)
        return plan

    def run(self, plan: Plan, emit: Emit) -> Result:
        """Run it."""
        result: Result = self.module.run(plan, emit)
        return result

    def call(self, options: Any, runtime: Runtime) -> Result:
        """Plan and run it."""
        return self.run(self.plan(options, runtime), runtime.emit)


def find_commands() -> list[Command]:
    """Return all commands, without importing their modules."""
    package = import_module("..commands", __package__)
    found = list(_modules_of(package.__name__, package.__path__, ()))
    found += [Command(path, package.__name__.replace("commands", name)) for path, name in package.ELSEWHERE.items()]
    return found + [Command(tuple(point.name.split()), point.module, point) for point in ENTRIES.points]


def command_named(name: str) -> Command | None:
    """Return the command with a Python name ('tune_gemm'), or None."""
    return next((command for command in find_commands() if command.name == name), None)


def find_command(name: str) -> Command:
    """Return the command with a Python name, which must exist."""
    command = command_named(name)
    assert command is not None, name
    return command


def settable_options() -> dict[tuple[str, ...], dict[str, FieldType]]:
    """Return the options that a configuration may set, by command; all modules of commands are imported for it."""
    return {command.path: command.settable for command in find_commands()}


def about_group(path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return a group's help and examples: the docstring and `EXAMPLES` of its package; none for another package's."""
    try:
        package = import_module("..commands." + ".".join(path).replace("-", "_"), __package__)
    except ModuleNotFoundError:
        return "", ()
    return package.__doc__ or "", getattr(package, "EXAMPLES", ())


def _modules_of(name: str, folders: Iterable[str], path: tuple[str, ...]) -> Iterator[Command]:
    for module in pkgutil.iter_modules(folders):
        inner = (*path, module.name.rstrip("_").replace("_", "-"))
        if module.name.startswith("_"):
            continue
        if module.ispkg:
            yield from _modules_of(
                f"{name}.{module.name}", [str(Path(folder) / module.name) for folder in folders], inner
            )
        else:
            yield Command(inner, f"{name}.{module.name}")


def _spec(module: str) -> ModuleSpec | None:
    """Return the spec of a module; unlike `find_spec`, this does not import its parent packages."""
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        if length > 1 and (spec is None or spec.submodule_search_locations is None):
            return None
        places = spec.submodule_search_locations if spec is not None else None
        name = ".".join(parts[:length])
        spec = next(filter(None, (finder.find_spec(name, places) for finder in sys.meta_path)), None)
    return spec


def _docstring(module: str) -> str | None:
    try:
        spec = _spec(module)
        if spec is None or spec.origin is None:
            return None
        with tokenize.open(spec.origin) as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.type == tokenize.STRING:
                    return inspect.cleandoc(ast.literal_eval(token.string))
    except (ImportError, OSError, SyntaxError, tokenize.TokenError):
        return None
    return None


_HIDDEN = object()


def plain(value: Any) -> Any:
    """Return a value as JSON has it; `_HIDDEN` for functions and the like."""
    from pydantic import BaseModel

    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else getattr(value, "in_words", _HIDDEN)
