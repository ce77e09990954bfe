"""`tune attention` on the terminal, and its result in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from ..api.attention import ScheduleOptimizer
from ..api.attention_result import ScheduleResult
from ..api.options.attention import AttentionConfig
from ..core import Config
from ..runtime.words import beside_reference
from .guard import NOTHING_FASTER
from .parameters import chosen
from .render import Display
from .tune_progress import SearchDisplay, SearchLines


def show_attention(given: Mapping[str, Any], display: Display) -> int:
    """Search and show the result; 0 when a schedule is faster, `NOTHING_FASTER` when none of the correct ones is."""
    screen = SearchDisplay(display) if display.quiet else SearchLines(display)
    result = ScheduleOptimizer(chosen(given, AttentionConfig, on_event=screen.emit)).optimize()
    show_result(result, screen)
    if display.json:
        display.print_json(result.summary())
    if result.best is None or not result.best.ok:
        return 1
    return 0 if result.faster else NOTHING_FASTER


def show_result(result: ScheduleResult, screen: SearchDisplay) -> None:
    """The result in words; a failure on standard error."""
    folder = escape(str(result.folder.path))
    best, own = result.best, result.found.start
    if best is None:
        why = next((e.message for e in result.found.evaluations if e.message), result.found.stopped)
        screen.errors.print(f"[red]failed:[/] no schedule was correct, first: {escape(why)}; all are in {folder}")
        return
    shown = Config({name: best.config[name] for name in result.space.names})
    screen.console.print(f"best of {result.iterations} schedules: [bold]{escape(str(shown))}[/]")
    kind = "simulated, not measured: " if result.simulated else ""
    ratio = "" if result.faster else ", [bold]not faster than the kernel's own schedule[/]"
    if result.faster and own is not None and own.latency_ms:
        ratio = f", {own.latency_ms / 1e3 / result.latency:.2f} times as fast as the kernel's own schedule"
    if best.speedup:
        ratio += f"; {best.speedup} against the reference{escape(beside_reference(best))}"
    screen.console.print(f"{kind}{1e3 * result.latency:.4f} ms{ratio}; stopped: {result.found.stopped}")
    if result.faster:
        screen.console.print(f"kernel: {escape(str(result.kernel_path))}")
    screen.console.print(f"folder: {folder}")
