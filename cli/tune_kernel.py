"""`tune kernel` on the terminal, and its result in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from ..api.options.tune import TuneOptions
from ..api.tune import run_tune
from ..api.tuned import TuneResult
from ..core import Config, Evaluation
from .guard import NOTHING_FASTER
from .parameters import chosen
from .render import Display, Screen, beside_reference, busy, workload_lines
from .tune_progress import search_display


def show_tune(given: Mapping[str, Any], display: Display) -> int:
    """Search and show the result; 0 when a config is faster, `NOTHING_FASTER` when none of the correct ones is."""
    screen = search_display(display)
    result = run_tune(chosen(given, TuneOptions), screen.emit)
    if result.found.best is None or not display.json:
        show_result(result, screen)
    if display.json:
        display.print_json(result.summary())
    if result.found.best is None or result.unproven:
        return 1
    return 0 if result.faster or result.patch else NOTHING_FASTER


def show_result(result: TuneResult, screen: Screen) -> None:
    """The result in words; a failure on standard error."""
    found, best = result.found, result.found.best
    journal = escape(str(result.folder / "journal.jsonl"))
    if not found.progress.trials:
        screen.errors.print(f"[red]failed:[/] nothing was tried: {found.stopped}; allow more")
    elif best is None:
        status, times = found.progress.statuses.most_common(1)[0]
        first = next((e.message.splitlines()[0] for e in found.evaluations if e.status == status and e.message), "")
        screen.errors.print(
            f"[red]failed:[/] none of {found.progress.trials} configs is correct: {times} times {status}, "
            f"first: {escape(first)}; all are in {journal}; {_advice(result)}"
        )
    else:
        _show_best(result, screen, best)


def _advice(result: TuneResult) -> str:
    """Return the advice for a search without a correct config."""
    start = result.found.start
    if start is not None and not start.ok:
        return "the unchanged kernel fails too: fix it first"
    return "widen --param: the unchanged kernel is correct"


def _show_best(result: TuneResult, screen: Screen, best: Evaluation) -> None:
    found = result.found
    shown = Config({name: best.config[name] for name in result.pruned.names})
    screen.console.print(f"best of {found.progress.trials} trials: [bold]{escape(str(shown))}[/]")
    if not result.faster:
        faster = ", [bold]not measurably faster than the kernel's own constants[/]"
    else:
        faster = f", [bold]{result.gain:.2f} times as fast[/] as the kernel's own constants" if result.gain else ""
    screen.console.print(
        f"{best.latency_ms:.4f} ms{faster}; {best.speedup} against the reference{beside_reference(best)}; "
        f"stopped: {found.stopped}"
    )
    for line in workload_lines(best.workloads, found.start.workloads if found.start else {}):
        screen.console.print(line)
    if result.contention is not None:
        screen.warn(busy(result.contention))
    if result.unproven:
        screen.warn(f"unproven, so the kernel is not written: {result.unproven}; `require_replay` accepts it")
    files = ("kernel", result.kernel_path), ("solution", result.solution), ("patch", result.patch)
    for what, path in (*files, ("trials", result.folder)):
        if path is not None:
            screen.console.print(f"{what}: {escape(str(path))}")
