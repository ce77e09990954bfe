"""From option classes to command lines: every field becomes a flag, and what was given becomes the options.

An option is written once, in `api/options`; a command adds only what concerns the terminal (`json`, `quiet`, ...).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Collection, Mapping
from types import GenericAlias
from typing import Annotated, Any, TypeVar

import typer

from ..api.options.groups import OUTPUT
from ..api.options.option import Details, Options, details_of, types_of
from .flags import SHORT, as_flags, flag_of, option_names

RESUMABLE = "interrupted; the same command with --resume goes on from here"
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.", rich_help_panel=OUTPUT)]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.", rich_help_panel=OUTPUT)]
"""Options of the terminal, which several commands have and no Python caller needs."""
OptionsT = TypeVar("OptionsT", bound=Options)


def with_options(
    options: type[OptionsT],
    positional: Collection[str] = (),
    only: Collection[str] | None = None,
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
        settable = {
            field.name: (field, types[field.name])
            for field in fields
            if field.name not in positional and field.default is not dataclasses.MISSING and not details_of(field).texts
        }
        derived = [_parameter(field, types[field.name], field.name in positional) for field in fields]

        @functools.wraps(command)
        def run(context: typer.Context, given: Mapping[str, Any] | None = None, **values: Any) -> None:
            if given is None:  # the outermost of several, which knows the options of all
                given = _configured(context, run.option_fields)  # type: ignore[attr-defined]
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


def _parameter(field: dataclasses.Field[Any], kind: Any, positional: bool) -> inspect.Parameter:
    details: Details = details_of(field)
    needed = field.default is dataclasses.MISSING
    default = None if field.default is dataclasses.MISSING else field.default
    names = option_names()
    if details.texts:
        kind, default = list[str] | None, None
    if typing.get_origin(kind) is tuple:
        kind, default = GenericAlias(list, typing.get_args(kind)[:1]) | None, None
    described: dict[str, Any] = {"help": as_flags(details.help, names), "metavar": details.metavar}
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


def command_of(context: typer.Context) -> tuple[str, ...]:
    """('tune', 'kernel'): the command's name without the program's, also where the program is one command alone."""
    names = []
    step: Any = context
    while step.parent is not None:
        names.append(step.info_name)
        step = step.parent
    return tuple(reversed(names)) or (str(context.command.name),)


def _configured(context: typer.Context, fields: Mapping[str, tuple[dataclasses.Field[Any], Any]]) -> dict[str, Any]:
    """What the environment and files set of the options that the command line does not give.

    What a project's files set is told on standard error: they may be another's.
    """
    from ..core.errors import KernelwrightError
    from .configuration import sources
    from .guard import tell
    from .project_settings import configured, told

    given = {name for name in fields if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"}
    try:
        left = {name: field for name, field in fields.items() if name not in given}
        found = configured(command_of(context), left, sources())
        values = {name: setting.value_for(*fields[name]) for name, setting in found.settings.items()}
        for line in told(found):
            typer.echo(line, err=True)
    except KernelwrightError as error:
        raise typer.Exit(tell(error)) from None
    return values


def _value(field: dataclasses.Field[Any], given: Any) -> Any:
    return not given if field.default is True else given


def chosen(given: Mapping[str, Any], options: type[OptionsT], **more: Any) -> OptionsT:
    """The options of a class from the values that a command line gave."""
    names = {field.name for field in dataclasses.fields(options)}
    return options(**{name: value for name, value in {**given, **more}.items() if name in names})
