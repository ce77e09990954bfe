"""Examples in the help of every command, kept as lines so that tests can parse them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TypeVar

CommandT = TypeVar("CommandT", bound=Callable[..., None])
PROGRAM = "kernelwright"
WIDTH = 76
"""Columns that a line of help has on a terminal of 80."""


def examples_block(examples: Sequence[str]) -> str:
    """A paragraph for a help text: each example on lines of its own, which a shell takes as they stand."""
    lines = [line for example in examples for line in _wrapped(f"{PROGRAM} {example}")]
    return "\n".join(["Examples:", *lines])


def with_examples(*examples: str) -> Callable[[CommandT], CommandT]:
    """Add examples to a command's help; they are written without the program's name."""

    def decorate(command: CommandT) -> CommandT:
        command.__doc__ = f"{inspect.cleandoc(command.__doc__ or '')}\n\n{examples_block(examples)}"
        return command

    return decorate


def _wrapped(example: str) -> list[str]:
    """An example in lines that end with a backslash where the next one belongs to it; options keep their values."""
    lines, line = [], "  "
    for part in example.replace(" -", "\0-").split("\0"):
        if len(line) + len(part) + 2 > WIDTH and line.strip():
            lines.append(f"{line.rstrip()} \\")
            line = "      "
        line += f"{part} "
    return [*lines, line.rstrip()]
