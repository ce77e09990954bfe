"""Tools made from commands for agents: the arguments are the options, the reply is the result's JSON.

Only the server sets options for trust, devices and folders; trials and seconds are within its limits. A command with
the option `results` leaves a run.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field, create_model

from ..runtime.command import Command, find_commands
from ..runtime.options.option import details_of, types_of
from ..runtime.result import Result, says_what_is_next
from .offered import CODE, SECONDS, TRIALS, offered_options
from .places import ENDED, FINISHED
from .workshop import FINISH_S, Report, Workshop

Seconds: TypeAlias = Annotated[
    float | None, Field(description="Begin no new work after this many seconds; by default the server's limit.")
]
Trials: TypeAlias = Annotated[
    int | None, Field(description="At most this many evaluations; by default, and at most, the server's limit.")
]
Call: TypeAlias = Context[Any, Any]
Tool: TypeAlias = Callable[..., Awaitable[Any]]

RULES = "rules"
"""The model of all calls: the model is the caller, and nothing here spends its money."""


def command_tools(workshop: Workshop) -> Iterator[tuple[str, Tool, bool]]:
    """Yield a tool for each command that is for agents, with its name, and whether it leaves files."""
    for command in find_commands():
        if command.declared.agents:
            yield command.name, _tool(workshop, command), "results" in types_of(command.options)


def _tool(workshop: Workshop, command: Command) -> Tool:
    types = types_of(command.options)
    model, leaves_run = reply_model(command.result, "results" in types), "results" in types

    async def tool(call: Call, **given: Any) -> BaseModel:
        kernel, limit = given.get("kernel", ""), workshop.limits.seconds_of(given.pop("seconds"))
        options = _options(workshop, types, given, limit)
        if not leaves_run:
            done = await workshop.do(command.name, options, limit, reporting(call), kernel)
            return model.model_validate(done.result)
        run = workshop.runs.begin(command.name, kernel)
        state, result = ENDED, None
        try:
            options["results"] = str(run.folder)
            done = await workshop.do(command.name, options, limit + FINISH_S, reporting(call), kernel, run.id)
            reply = model.model_validate(done.result)
            state, result = FINISHED, reply.model_dump(mode="json")
            return reply
        finally:
            run.end(state, result)

    own = [*_parameters(command, types), *_limits(types)]
    called = inspect.Parameter("call", inspect.Parameter.KEYWORD_ONLY, annotation=Call)
    tool.__name__, tool.__doc__ = command.name, command.help.partition("\n\n")[0]
    tool.__signature__ = inspect.Signature([called, *own], return_annotation=model)  # type: ignore[attr-defined]
    tool.__annotations__ = {**{item.name: item.annotation for item in (called, *own)}, "return": model}
    return tool


def _options(workshop: Workshop, types: Mapping[str, Any], given: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the options of a call, with confined paths, and with the options that the server sets."""
    options = {name: _confined(workshop, types[name], name, value) for name, value in given.items() if name != "trials"}
    options |= {name: value for name, value in workshop.measured.items() if name in types}
    options |= {name: seconds for name in SECONDS if name in types}
    options |= {name: workshop.limits.trials_of(given["trials"]) for name in TRIALS if name in types}
    if "model" in types:
        options["model"] = RULES
    if "kernel" in given and "problem" in types:
        options["problem"] = workshop.root.problem_of(options["kernel"], given.get("problem"))
    return options


def reply_model(result: type[Result], leaves_run: bool = False) -> type[BaseModel]:
    """Return the model of a tool's reply: the JSON of a result, with the fields that `jobs.reply` adds."""
    fields: dict[str, Any] = {"run": (str, Field(description=_RUN))} if leaves_run else {}
    own = {name: (info.annotation, info.description) for name, info in result.model_fields.items() if not info.exclude}
    computed = result.model_computed_fields.items()
    own |= {info.alias or name: (info.return_type, info.description) for name, info in computed}
    for name, (kind, description) in own.items():
        if name in result.inlined:
            model = next(member for member in typing.get_args(kind) or (kind,) if member is not type(None))
            inlined = {
                inner: (info.annotation, info.description)
                for inner, info in model.model_fields.items()
                if inner != "kind"
            }
            fields |= {inner: _optional(*field) for inner, field in inlined.items()}
        elif name in result.absent_if_empty:
            fields[name] = _optional(kind, description)
        else:
            fields[name] = (kind, Field(description=description))
    if says_what_is_next(result):
        fields["warnings"] = (
            list[str],
            Field(description="Reasons to doubt the figures; empty if there are none."),
        )
        fields["next"] = (str, Field(description="What to do next."))
    return create_model(result.__name__, __doc__=result.__doc__, **fields)


def _optional(kind: Any, description: str | None) -> tuple[Any, Any]:
    """Return the field of a key that may be absent."""
    return kind | None, Field(None, description=description)


_RUN = "The run's id: its resources are kernelwright://runs/<run>/report, .../history, .../kernel and .../result."


def _parameters(command: Command, types: Mapping[str, Any]) -> Iterator[inspect.Parameter]:
    """Yield the options that a client may set."""
    for field in offered_options(command):
        details = details_of(field)
        limits = {"gt": details.above, "ge": details.at_least, "le": details.at_most}
        field_info = Field(
            description=details.text, **{name: limit for name, limit in limits.items() if limit is not None}
        )  # type: ignore[call-overload]
        needed = field.default is dataclasses.MISSING or field.name == "kernel"
        kind = str if field.name == "kernel" else types[field.name]
        default = inspect.Parameter.empty if needed else field.default
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, field_info]
        )


def _limits(types: Mapping[str, Any]) -> Iterator[inspect.Parameter]:
    if any(name in types for name in TRIALS):
        yield inspect.Parameter("trials", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Trials)
    yield inspect.Parameter("seconds", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Seconds)


def _confined(workshop: Workshop, kind: Any, name: str, value: Any) -> Any:
    """Return a value for the job. All paths in it, and those that kernels name, must be in the server's folder."""
    if value is None:
        return None
    if name in ("reference", "inputs"):
        return workshop.root.target(value, name)
    if name in CODE:
        return workshop.root.reference(value, name)
    if name == "folder":
        place = workshop.root.directory(str(value), name)
        workshop.root.check_kernels(place)
        return str(place)
    if Path in (kind, *typing.get_args(kind)):
        several = value if isinstance(value, list | tuple) else [value]
        paths = [str(workshop.root.path(str(item), name)) for item in several]
        return paths if isinstance(value, list | tuple) else paths[0]
    return value


def reporting(call: Call) -> Report:
    """Return a function that reports progress; it does nothing if the client requested none."""

    async def report(progress: float, total: float | None, text: str) -> None:
        await call.report_progress(progress, total, text)

    return report
