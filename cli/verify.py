"""`corpus verify` on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from ..api.observers import VerifyObserver
from ..api.options.corpus import VerifyOptions
from ..api.verify_corpus import ExampleResult, run_verify
from .parameters import chosen
from .render import Display, Screen


class VerifyDisplay(Screen, VerifyObserver):
    """One line per example."""

    def example_verified(self, number: int, total: int, result: ExampleResult) -> None:
        """Its line."""
        if not self.display.quiet:
            self.print(f"[{number}/{total}] {describe_example(result)}")


def show_verify(given: Mapping[str, Any], display: Display) -> int:
    """Measure the examples that the device can run; 0 when all of them are correct."""
    screen = VerifyDisplay(display)
    result = run_verify(chosen(given, VerifyOptions), screen)
    if display.json:
        print(json.dumps(result.summary()), file=sys.stdout)
    else:
        screen.print(f"{len(result.results) - len(result.wrong)} of {len(result.results)} examples are correct")
    return 1 if result.wrong else 0


def describe_example(result: ExampleResult) -> str:
    """An example's result in a line, with rich markup."""
    slug = escape(result.example)
    if not result.correct:
        return f"[red]{slug}[/]: {escape('; '.join(result.messages))}"
    gain = result.gain
    if gain is None:
        return f"[green]{slug}[/]: correct, not timed"
    return (
        f"[green]{slug}[/]: {gain.before_ms:.4f} ms to {gain.after_ms:.4f} ms, "
        f"{gain.speedup:.2f}x \\[{gain.low:.2f}, {gain.high:.2f}]"
    )
