"""`corpus add` and `corpus list` on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from ..api.corpus import example_record, run_add, run_list
from ..api.options.corpus import AddOptions, ListOptions
from ..core import WorkedExample
from .parameters import chosen
from .render import Display, Screen


def show_add(given: Mapping[str, Any], display: Display) -> int:
    """Write the example and say where it is."""
    screen = Screen(display)
    result = run_add(chosen(given, AddOptions))
    if display.json:
        print(json.dumps(result.summary()), file=sys.stdout)
        return 0
    screen.print(_described(result.example))
    screen.print(escape(f"example: {result.path}"))
    return 0


def show_list(given: Mapping[str, Any], display: Display) -> int:
    """Print a line per example; 0 when there is one."""
    screen = Screen(display)
    examples = run_list(chosen(given, ListOptions))
    if display.json:
        print(json.dumps({"examples": [example_record(one) for one in examples]}), file=sys.stdout)
        return 0 if examples else 1
    for one in examples:
        screen.print(_described(one))
    return 0 if examples else 1


def _described(example: WorkedExample) -> str:
    """An example in a line, with rich markup."""
    told = f"{example.title} ({', '.join(example.techniques)}); {example.gain or 'not measured'}"
    return f"[bold]{escape(example.slug)}[/]: {escape(told)}"
