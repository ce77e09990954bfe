"""Tools made of the commands that are for agents: the arguments are the options, the reply is the result's JSON."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, Field, create_model

from ...api.options.option import details_of, types_of
from ...runtime.command import Command, find_commands
from ...runtime.result import Result
from ..workshop import Workshop
from .arguments import Call, Tool, reporting

CODE = ("kernel", "problem", "reference", "inputs")
"""Options that name files, as texts."""


def command_tools(workshop: Workshop) -> Iterator[tuple[str, Tool]]:
    """Yield a tool for each command that is for agents, with its name."""
    for command in find_commands():
        if command.for_agents:
            yield command.name, _tool(workshop, command)


def _tool(workshop: Workshop, command: Command) -> Tool:
    reply, types = reply_model(command.result), types_of(command.options)
    fields = [field for field in dataclasses.fields(command.options) if _is_offered(field)]

    async def tool(call: Call, **given: Any) -> BaseModel:
        set_by_server = {name: value for name, value in workshop.measured.items() if name in types}
        options = {name: _confined(workshop, types[name], name, value) for name, value in given.items()}
        limit = workshop.limits.seconds_of(None)
        done = await workshop.do(command.name, {**options, **set_by_server}, limit, reporting(call))
        return reply.model_validate(done.result)

    own = [_parameter(field, types[field.name]) for field in fields]
    called = inspect.Parameter("call", inspect.Parameter.KEYWORD_ONLY, annotation=Call)
    tool.__name__, tool.__doc__ = command.name, command.help.partition("\n\n")[0]
    tool.__signature__ = inspect.Signature([called, *own], return_annotation=reply)  # type: ignore[attr-defined]
    tool.__annotations__ = {**{item.name: item.annotation for item in (called, *own)}, "return": reply}
    return tool


def reply_model(result: type[Result]) -> type[BaseModel]:
    """Return the model of a result's JSON: its fields and computed fields, without what only Python gets."""
    fields: dict[str, Any] = {
        name: (field.annotation, Field(description=field.description))
        for name, field in result.model_fields.items()
        if not field.exclude
    }
    for name, computed in result.model_computed_fields.items():
        fields[computed.alias or name] = (computed.return_type, Field(description=computed.description))
    return create_model(result.__name__, **fields)


def _is_offered(field: dataclasses.Field[Any]) -> bool:
    """Whether a client may choose it: what decides on trust and machines is the server's alone."""
    details = details_of(field)
    return not details.python_only and field.name != "device" and (not details.trusted or field.name in CODE)


def _parameter(field: dataclasses.Field[Any], kind: Any) -> inspect.Parameter:
    details = details_of(field)
    limits = {"gt": details.above, "ge": details.at_least, "le": details.at_most}
    told = Field(description=details.help, **{name: one for name, one in limits.items() if one is not None})  # type: ignore[call-overload]
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, told]
    )


def _confined(workshop: Workshop, kind: Any, name: str, value: Any) -> Any:
    """Return a value for the job; every path in it lies in the server's folder."""
    if value is None:
        return None
    if name in CODE:
        return workshop.root.reference(value, name)
    if Path in (kind, *get_args(kind)):
        several = isinstance(value, list | tuple)
        return (
            [str(workshop.root.path(str(item), name)) for item in value]
            if several
            else str(workshop.root.path(str(value), name))
        )
    return value
