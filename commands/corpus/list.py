"""List the worked examples with their measurements.

Exit codes: 0 listed, 1 there are none, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import computed_field
from rich.markup import escape
from rich.text import Text

from ...core import WorkedExample
from ...core.events import Emit
from ...core.files import own_examples
from ...corpus.examples import ExampleFolder, list_examples
from ...runtime import command, result
from ...runtime.options.groups import Backend, require_examples
from ...runtime.options.option import Options as BaseOptions
from ...runtime.options.option import option
from ...runtime.runtime import Runtime

EXAMPLES = ("corpus list --backend triton", "corpus list --folder ~/team --json")


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """List worked examples."""

    folder: Path | None = option(None, "A folder of examples; by default the shipped ones and the user's own.")
    backend: Backend | None = option(None, "Examples of one backend; by default all.")

    def check(self) -> None:
        """Raise `OptionError` for a folder that is not there."""
        super().check()
        require_examples("folder", self.folder)


@dataclass(frozen=True)
class Plan(command.Plan):
    """The folders of the examples."""

    folders: Sequence[ExampleFolder] = field(metadata=command.NOT_SHOWN)

    def to_json(self) -> dict[str, Any]:
        """Their names."""
        return {"examples": [folder.slug for folder in self.folders]}


class Result(result.Result):
    """Worked examples."""

    examples: result.ForPython[list[WorkedExample]]

    @computed_field(alias="examples")
    @property
    def records(self) -> list[dict[str, Any]]:
        """The examples without their sources."""
        return [example.to_json() for example in self.examples]

    @property
    def exit_code(self) -> int:
        """1 if there are no examples."""
        return 0 if self.examples else 1

    def lines(self) -> Iterator[Any]:
        """A line for each."""
        for example in self.examples:
            yield Text.from_markup(f"[bold]{escape(example.slug)}[/]: {escape(example.in_words)}")


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the shipped examples and the user's own, or those of a folder."""
    own = own_examples()
    found: Sequence[ExampleFolder] = (
        list_examples(options.folder)
        if options.folder is not None
        else [*list_examples(), *(list_examples(own) if own.is_dir() else [])]
    )
    return Plan([folder for folder in found if options.backend in (None, folder.backend)])


def run(plan: Plan, emit: Emit) -> Result:
    """Read them."""
    return Result(examples=[folder.read() for folder in plan.folders])
