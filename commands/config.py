"""Show the options that files and the environment set, and the source of each value.

Only trusted projects may set all options: see 'kernelwright trust'.

Exit codes: 0 shown, 2 an unknown command, key or value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core import OptionError
from ..core.events import Emit
from ..corpus.names import nearest
from ..runtime import command, result
from ..runtime.command import settable_options
from ..runtime.configuration import CommandPath, OptionSource, sources
from ..runtime.options.option import FieldType, described
from ..runtime.options.option import Options as BaseOptions
from ..runtime.runtime import Runtime
from ..runtime.trusted_projects import configured

EXAMPLES = ("config", "config tune kernel", "config optimize --json")
POSITIONAL = ("command",)


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Show the options that files and the environment set."""

    command: tuple[str, ...] = field(
        default=(),
        kw_only=False,
        metadata=described("A command, such as 'tune kernel': all of its options, defaults too."),
    )


@dataclass(frozen=True)
class Plan(command.Plan):
    """The command whose settings are shown."""

    every: bool
    """Whether options with default values are shown too."""
    options: Mapping[CommandPath, Mapping[str, FieldType]] = field(metadata=command.NOT_SHOWN)
    sources: Sequence[OptionSource] = field(metadata=command.NOT_SHOWN)

    def to_json(self) -> dict[str, Any]:
        """The commands."""
        return {"commands": [" ".join(path) for path in self.options]}


class Result(result.Result):
    """Options, each with its value and source."""

    rows: result.ForPython[list[dict[str, Any]]]

    def to_json(self) -> Any:
        """A list of command, option, value and where; `refused` if a project's file may not set the option."""
        return self.rows

    def lines(self) -> Iterator[str]:
        """A line for each."""
        for row in self.rows:
            refused = f"; {row['refused']} needs a trusted project" if "refused" in row else ""
            yield f"{row['command']}: {row['option']} = {row['value']}    ({row['where']}{refused})"
        if not self.rows:
            yield "nothing is set: `kernelwright docs configuration` names the files and variables"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the commands, and read the files."""
    known, wanted = settable_options(), options.command
    chosen = {path: fields for path, fields in known.items() if path[: len(wanted)] == wanted}
    if not chosen:
        name, names = " ".join(wanted), [" ".join(path) for path in known]
        raise OptionError(f"there is no command '{name}'{nearest(name, names)}", "'kernelwright --help' lists them")
    return Plan(bool(wanted), chosen, sources())


def run(plan: Plan, emit: Emit) -> Result:
    """Show them."""
    return Result(rows=[row for path, fields in plan.options.items() for row in _rows(path, fields, plan)])


def _rows(path: CommandPath, fields: Mapping[str, FieldType], plan: Plan) -> Iterator[dict[str, Any]]:
    here = configured(path, fields, plan.sources)
    for name, (option, kind) in sorted(fields.items()):
        setting, refused = here.settings.get(name), here.refused.get(name)
        if setting is None and refused is None and not plan.every:
            continue
        default = None if option.default is dataclasses.MISSING else option.default
        value = default if setting is None else setting.value_for(option, kind)
        where = "default" if setting is None else setting.where
        row = {"command": " ".join(path), "option": name, "value": command.plain(value), "where": where}
        yield row if refused is None else {**row, "refused": refused.where}
