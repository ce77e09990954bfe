"""The commands of `corpus` on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from ..api.corpus import example_record, run_add, run_list
from ..api.import_runs import run_import
from ..api.options.corpus import AddOptions, ImportOptions, ListOptions, VerifyOptions
from ..api.verify_corpus import ExampleResult, KernelResult, run_verify
from ..core import WorkedExample
from ..core.events import Event, PartDone
from .parameters import chosen
from .render import Display, Screen


class VerifyDisplay(Screen):
    """One line per example and kernel."""

    def emit(self, event: Event) -> None:
        """Show the line of an example or a kernel."""
        match event:
            case PartDone(result=ExampleResult() as example):
                self._line(event, describe_example(example))
            case PartDone(result=KernelResult() as kernel):
                self._line(event, describe_kernel(kernel))
            case _:
                super().emit(event)

    def _line(self, part: PartDone, text: str) -> None:
        if not self.display.quiet:
            self.print(f"[{part.number}/{part.total}] {text}")


def show_verify(given: Mapping[str, Any], display: Display) -> int:
    """Measure what the device can run; 0 when all of it is correct."""
    screen = VerifyDisplay(display)
    result = run_verify(chosen(given, VerifyOptions), screen.emit)
    if display.json:
        display.print_json(result.summary())
    else:
        for what, found in (("kernels", result.kernels), ("examples", result.results)):
            if found:
                screen.print(f"{sum(item.correct for item in found)} of {len(found)} {what} are correct")
    return 1 if result.wrong else 0


def describe_kernel(result: KernelResult) -> str:
    """A kernel's result in a line, with rich markup."""
    name = escape(result.kernel)
    if not result.correct:
        return f"[red]{name}[/]: {escape('; '.join(result.messages))}"
    speedup = result.speedup
    if speedup is None:
        return f"[green]{name}[/]: correct, {'without a reliable time' if result.timed else 'not timed'}"
    return f"[green]{name}[/]: {speedup.ratio:.2f}x \\[{speedup.low:.2f}, {speedup.high:.2f}] of the reference"


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


def show_add(given: Mapping[str, Any], display: Display) -> int:
    """Write the example and say where it is."""
    screen = Screen(display)
    result = run_add(chosen(given, AddOptions))
    if display.json:
        display.print_json(result.summary())
        return 0
    screen.print(_described(result.example))
    screen.print(escape(f"example: {result.path}"))
    return 0


def show_import(given: Mapping[str, Any], display: Display) -> int:
    """Enter the runs and say which; 0 unless there is none."""
    screen = Screen(display)
    result = run_import(chosen(given, ImportOptions))
    if display.json:
        display.print_json(result.summary())
    else:
        for item in result.entered:
            screen.print(escape(f"entered: {item.problem} on {item.device} ({item.run})"))
        screen.print(
            f"{len(result.entered)} entered, {result.known} known already, {result.unfinished} without a whole turn"
        )
    return 0 if result.entered or result.known else 1


def show_list(given: Mapping[str, Any], display: Display) -> int:
    """Print a line per example; 0 when there is one."""
    screen = Screen(display)
    examples = run_list(chosen(given, ListOptions))
    if display.json:
        display.print_json({"examples": [example_record(example) for example in examples]})
        return 0 if examples else 1
    for one in examples:
        screen.print(_described(one))
    return 0 if examples else 1


def _described(example: WorkedExample) -> str:
    """An example in a line, with rich markup."""
    told = f"{example.title} ({', '.join(example.techniques)}); {example.gain or 'not measured'}"
    return f"[bold]{escape(example.slug)}[/]: {escape(told)}"
