"""The options of a command that a client of the server may set, under the names of a tool's arguments."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..runtime.command import Command
from ..runtime.options.option import details_of, types_of

CODE = ("kernel", "problem", "reference", "inputs")
"""Options that name files, as texts."""
TRIALS, SECONDS = ("trials", "max_trials"), ("seconds", "time_limit")
"""Options that a call's `trials` and `seconds` set."""
_SET_BY_SERVER = ("device", "results", "resume", *TRIALS, *SECONDS)


def offered_options(command: Command) -> list[dataclasses.Field[Any]]:
    """Return the options that a client may set unchanged. Only the server sets those for trust and machines."""
    named = command.declared.agents
    found = []
    for field in dataclasses.fields(command.options):
        details = details_of(field)
        offered = field.name in named if isinstance(named, tuple) else True
        free = not details.trusted or field.name in CODE
        if offered and free and not details.python_only and field.name not in _SET_BY_SERVER:
            found.append(field)
    return found


def argument_names(command: Command) -> set[str]:
    """Return the names of a tool's arguments."""
    trials = {"trials"} if not types_of(command.options).keys().isdisjoint(TRIALS) else set()
    return {field.name for field in offered_options(command)} | trials | {"seconds"}
