"""`kernelwright plan`: what one call of a kernel launches, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from ..api.options.plan import PlanOptions
from ..api.plan import run_plan
from .parameters import chosen
from .render import Display, Screen


def show_plan(given: Mapping[str, Any], display: Display) -> int:
    """Show a kernel's launch plan; 0 when replaying it computes what the reference does."""
    options = chosen(given, PlanOptions)
    screen = Screen(display)
    result = run_plan(options, screen.emit)
    if display.json:
        display.print_json(result.record())
        return 0 if result.replayed else 1
    for number, line in enumerate(result.plan.all_lines() if result.plan else (), 1):
        screen.print(escape(f"{number:3} {line}"))
    if result.replayed:
        screen.print("replayed: yes; it computes what the reference does, without the kernel's Python")
    else:
        screen.print(escape(f"replayed: no; {result.remark}"))
    if options.save_plan:
        written = f"plan: {options.save_plan}" if result.replayed else "no plan is written"
        screen.print(escape(written))
    return 0 if result.replayed else 1
