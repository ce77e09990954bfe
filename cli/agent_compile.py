"""`agent compile` on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.markup import escape

from ..api.compile_program import ProgramResult, run_compile
from ..api.options.program import CompileOptions
from .parameters import chosen
from .render import Display, Screen


def show_compile(given: Mapping[str, Any], display: Display) -> int:
    """Improve the instructions; 0 when better ones are saved, 1 when none were better."""
    screen = Screen(display)
    screen.console.file = screen.console.file  # this very stream, whatever sys.stdout becomes while GEPA draws its bars
    result = run_compile(chosen(given, CompileOptions), screen.emit)
    for line in describe_compile(result):
        screen.print(escape(line))
    if display.json:
        display.print_json(result.summary())
    return 0 if result.improved else 1


def describe_compile(result: ProgramResult) -> Iterator[str]:
    """The result in words."""
    tried = result.optimized
    if tried.stopped:
        yield f"stopped: {tried.stopped}"
    work = f"{tried.proposals} proposals, {tried.evaluations} runs"
    if not tried.scores:
        yield "no program: it ended before the instructions as they are were tried in full"
    elif tried.improved:
        yield f"validation: {tried.scores[0]:.3f} -> {tried.scores[tried.best]:.3f} ({work})"
        yield f"program: {result.output}"
    else:
        yield f"none better than the instructions as they are, {tried.scores[0]:.3f} ({work}): no program written"
