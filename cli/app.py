"""The program, to which each file of commands adds its own, and what a configuration may set of them."""

from __future__ import annotations

from dataclasses import Field
from typing import Any

import typer
import typer.main

from .help_examples import examples_block

Command = tuple[str, ...]
"""('tune', 'kernel')."""
FieldType = tuple[Field[Any], Any]

FIRST_STEPS = (
    "optimize --kernel level1/1_94.py --target-speedup 1.3",
    "evaluate --kernel 1_19",
    "tune kernel 1_1 --trials 100",
)
app = typer.Typer(
    name="kernelwright",
    help=f"Make GPU and CPU kernels faster, and prove it.\n\n{examples_block(FIRST_STEPS)}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def commands() -> dict[Command, dict[str, FieldType]]:
    """The options that a configuration may set, by command, each with its field and type."""
    found: dict[Command, dict[str, FieldType]] = {}

    def walk(command: Any, path: Command) -> None:
        for name, child in getattr(command, "commands", {}).items():
            walk(child, (*path, name))
        if not hasattr(command, "commands"):
            found[path] = getattr(command.callback, "option_fields", {})

    walk(typer.main.get_command(app), ())
    return found
