"""`kernelwright agent`: the program that language models follow; `compile` improves its instructions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from ..api.options.program import CompileOptions
from .guard import guarded
from .help_examples import examples_block, with_examples
from .parameters import RESUMABLE, JsonOption, QuietOption, with_options
from .registered import CommandGroup

agent_app = typer.Typer(
    cls=CommandGroup,
    name="agent",
    help=f"The instructions that language models follow.\n\n{examples_block(('agent compile results',))}",
    no_args_is_help=True,
)


@agent_app.callback()
def agent() -> None:
    """See the help of `agent_app`."""


@agent_app.command("compile")
@with_examples(
    "agent compile results --budget medium --output program.json", "optimize --kernel 2_10 --program program.json"
)
@with_options(CompileOptions, positional=("recorded",))
def compile_(given: Mapping[str, Any], json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Improve the instructions with dspy.GEPA: try them on recorded problems, rewrite them, keep what measures better.

    'kernelwright optimize --program FILE' uses what is saved.

    Exit codes: 0 better instructions are saved, 1 none were better, 2 wrong usage, 75 waiting for a reply (--no-wait).
    """

    def work() -> int:
        from .agent_compile import show_compile
        from .render import Display

        return show_compile(given, Display(json=json, quiet=quiet))

    raise typer.Exit(guarded(work, RESUMABLE))
