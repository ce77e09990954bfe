"""Turns option classes into command lines: every field becomes a flag, and the given values become options.

An option is written once, in its command or in `runtime/options`; options of the terminal (`json`, ...) are added here.
Messages name options as Python does, and are shown with flags.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import json
import math
import os
import pkgutil
import re
import sys
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..runtime import options as api_options
from ..runtime.options.option import OUTPUT, Details, Options, details_of, settable_of, types_of

if TYPE_CHECKING:
    from ..core.errors import KernelwrightError

RESUMABLE = "interrupted; the same command with --resume goes on from here"
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.", rich_help_panel=OUTPUT)]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.", rich_help_panel=OUTPUT)]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Print changes and logs too.", rich_help_panel=OUTPUT)]
"""Options of the terminal, which several commands have and no Python caller needs."""
PROGRAM = "kernelwright"
WIDTH = 76
"""Columns that a line of help has on a terminal of 80."""
OptionsT = TypeVar("OptionsT", bound=Options)
CommandT = TypeVar("CommandT", bound=Callable[..., None])
SHORT = {"list_slow": "-l", "quiet": "-q", "output": "-o"}
ARGUMENT = "{}_argument"
"""Name of the parameter of an option that a command line also takes as an argument: `evaluate FILE`."""
SINGULAR = {"params": "param"}
"""Flags that give one element of a Python sequence."""
_NAMED = re.compile(r"`([a-z][a-z0-9_]*)`")


@dataclass(frozen=True)
class Display:
    """How much a command shows, and where: with `json`, standard output has only the object."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    to_stderr: bool = False
    """Whether text is written to standard error for another reason, such as a list on standard output."""

    def print_json(self, found: Mapping[str, Any]) -> None:
        """Print the object of --json."""
        print(json.dumps(found))


def with_options(
    options: type[OptionsT], positional: Collection[str] = (), only: Collection[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of an option class; the command gets `given`, the values by name, as its first argument.

    `positional` fields become arguments; `only` names the fields to take, by default all. Applied twice, a command gets
    the flags of both classes.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        fields = [
            field
            for field in dataclasses.fields(options)
            if (only is None or field.name in only) and not details_of(field).python_only
        ]
        shown = inspect.signature(command, eval_str=True).parameters.values()
        own = [item for item in shown if item.name not in ("given", "context")]
        types = types_of(options)
        names = {field.name for field in fields}
        settable = {name: option for name, option in settable_of(options, positional).items() if name in names}
        derived = [_parameter(field, types[field.name], field.name in positional) for field in fields]
        derived = [*map(_argument, filter(_also_argument, fields)), *derived]

        @functools.wraps(command)
        def run(context: typer.Context, given: Mapping[str, Any] | None = None, **values: Any) -> None:
            if given is None:  # the outermost of several, which has the options of all
                given = _configured(context, run.option_fields)  # type: ignore[attr-defined]
            for field in filter(_also_argument, fields):
                values[field.name] = _either(field, values.pop(ARGUMENT.format(field.name)), values[field.name])
            own_values = {field.name: _value(field, values.pop(field.name)) for field in fields}
            more = {"context": context} if any(item.name == "context" for item in shown) else {}
            command(given={**own_values, **given}, **more, **values)

        called = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [called, *(item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in (*derived, *own))]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.option_fields = {**getattr(command, "option_fields", {}), **settable}  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _also_argument(field: dataclasses.Field[Any]) -> bool:
    return details_of(field).argument


def _argument(field: dataclasses.Field[Any]) -> inspect.Parameter:
    info = typer.Argument(help=as_flags(details_of(field).text), metavar=field.name.upper(), show_default=False)
    name, kind = ARGUMENT.format(field.name), inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[str | None, info])


def _either(field: dataclasses.Field[Any], argument: str | None, flag: str | None) -> Any:
    """Return the value of an option that is an argument or a flag. Both, or a missing required one, end the command."""
    from ..core.errors import OptionError

    value = flag if argument is None else argument
    if argument is not None and flag is not None:
        raise typer.Exit(tell(OptionError(f"{argument!r} and `{field.name}` {flag!r} exclude each other")))
    if value is None and field.default is dataclasses.MISSING:
        raise typer.Exit(tell(OptionError(f"there is no {field.name}", "name one, such as 1_19 or my_kernel.py")))
    return field.default if value is None else value


def _parameter(field: dataclasses.Field[Any], kind: Any, positional: bool) -> inspect.Parameter:
    details: Details = details_of(field)
    needed = field.default is dataclasses.MISSING
    default = None if field.default is dataclasses.MISSING else field.default
    described: dict[str, Any] = {"help": as_flags(details.text), "metavar": details.metavar}
    if details.texts:
        kind, default = list[str] | None, None
    if details.argument:
        kind, default, needed = str | None, None, False
        described["help"] = f"The same as the argument {field.name.upper()}."
    if typing.get_origin(kind) is tuple:
        kind, default = GenericAlias(list, typing.get_args(kind)[:1]) | None, None
    if float in (kind, *typing.get_args(kind)):
        described |= {"parser": _parse_float}
    if details.choices is not None:
        described |= {"metavar": details.metavar or "NAME", "autocompletion": _completing(details.choices)}
    info: Any
    if positional:
        info = typer.Argument(**described, show_default=False)
    elif default is True:
        info = typer.Option(flag_of(field.name, negated=True), **described, rich_help_panel=details.group or None)
        default = False
    else:
        declared = [flag_of(field.name), *([SHORT[field.name]] if field.name in SHORT else []), *details.also]
        info = typer.Option(*declared, **described, rich_help_panel=details.group or None)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if needed else default,
        annotation=Annotated[kind, info],
    )


def _parse_float(text: str) -> float:
    """Return a number; raises `BadParameter` for none, and for one that no float holds, which Python reads as inf."""
    try:
        number = float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None
    if math.isinf(number) and any(digit in text for digit in "123456789"):
        raise typer.BadParameter(f"{text} is too large: the largest number is {sys.float_info.max:.3g}")
    return number


_parse_float.__name__ = "float"  # as help shows the type


def _completing(choices: Callable[[], Mapping[str, str]]) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in choices() if name.startswith(incomplete)]


def command_of(context: typer.Context) -> tuple[str, ...]:
    """Return the command's name without the program's: ('tune', 'kernel')."""
    names = []
    step: Any = context
    while step.parent is not None:
        names.append(step.info_name)
        step = step.parent
    return tuple(reversed(names)) or (str(context.command.name),)


def _configured(context: typer.Context, fields: Mapping[str, tuple[dataclasses.Field[Any], Any]]) -> dict[str, Any]:
    """Return values from the environment and files for options that the command line does not give.

    Settings of a project's files are reported on standard error, since the project may belong to someone else.
    """
    if not fields:  # such as `trust`, which must work whatever a file says
        return {}
    from ..core.errors import KernelwrightError
    from ..runtime.configuration import sources, unknown_variables
    from ..runtime.trusted_projects import configured, messages

    def is_given(name: str) -> bool:
        sources_of = [context.get_parameter_source(parameter) for parameter in (name, ARGUMENT.format(name))]
        return any(getattr(source, "name", "") == "COMMANDLINE" for source in sources_of)

    try:
        left = {name: field for name, field in fields.items() if not is_given(name)}
        found = configured(command_of(context), left, sources())
        values = {name: setting.value_for(*fields[name]) for name, setting in found.settings.items()}
        for line in messages(found):
            typer.echo(line, err=True)
        for line in unknown_variables(os.environ, command_of(context), fields):
            typer.echo(f"warning: {line}", err=True)
    except KernelwrightError as error:
        raise typer.Exit(tell(error)) from None
    return values


def _value(field: dataclasses.Field[Any], given: Any) -> Any:
    return not given if field.default is True else given


def chosen(given: Mapping[str, Any], options: type[OptionsT], **more: Any) -> OptionsT:
    """The options of a class from the values that a command line gave."""
    names = {field.name for field in dataclasses.fields(options)}
    return options(**{name: value for name, value in {**given, **more}.items() if name in names})


def examples_block(examples: Sequence[str]) -> str:
    """Return a paragraph for a help text, with each example on its own lines, ready for a shell."""
    lines = [line for example in examples for line in _wrapped(f"{PROGRAM} {example}")]
    return "\n".join(["Examples:", *lines])


def with_examples(*examples: str) -> Callable[[CommandT], CommandT]:
    """Add examples to a command's help; they are written without the program's name."""

    def decorate(command: CommandT) -> CommandT:
        command.__doc__ = f"{inspect.cleandoc(command.__doc__ or '')}\n\n{examples_block(examples)}"
        return command

    return decorate


def _wrapped(example: str) -> list[str]:
    """Wrap an example with backslashes at line ends. Options and their values stay together."""
    lines, line = [], "  "
    for part in example.replace(" -", "\0-").split("\0"):
        if len(line) + len(part) + 2 > WIDTH and line.strip():
            lines.append(f"{line.rstrip()} \\")
            line = "      "
        line += f"{part} "
    return [*lines, line.rstrip()]


def flag_of(name: str, negated: bool = False) -> str:
    """'--max-cost' for 'max_cost'; '--no-save' for a negated 'save'."""
    return f"--{'no-' if negated else ''}{SINGULAR.get(name, name).replace('_', '-')}"


def as_flags(text: str) -> str:
    """A message with the options that it names in backticks shown as flags: `max_cost` as --max-cost."""
    names, turned_off = _names(len(_classes()))

    def flag(match: re.Match[str]) -> str:
        name = match[1]
        return flag_of(name, negated=name in turned_off) if name in names else match[0]

    return _NAMED.sub(flag, text)


@functools.cache
def _names(classes: int) -> tuple[frozenset[str], frozenset[str]]:
    """Return the option names of all imported commands, and among them those that flags turn off.

    They are collected again when there are more classes.
    """
    fields = [field for item in _classes() for field in dataclasses.fields(item)]
    names = {field.name for field in fields} | {"batch", "list_slow"}
    return frozenset(names), frozenset(field.name for field in fields if field.default is True)


def _classes() -> list[type[Options]]:
    _import_shared()
    classes, below = [], Options.__subclasses__()
    while below:
        classes.append(cls := below.pop())
        below += cls.__subclasses__()
    return classes


@functools.cache
def _import_shared() -> None:
    for module in pkgutil.iter_modules(api_options.__path__):
        importlib.import_module(f"{api_options.__name__}.{module.name}")


def tell(error: KernelwrightError) -> int:
    """Print an error as one line, with flags in place of option names, and return its exit code."""
    typer.echo(f"{'waiting' if error.exit_code == 75 else 'error'}: {as_flags(str(error))}", err=True)
    return error.exit_code
