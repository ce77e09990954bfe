"""`tune replay` on the terminal: bars while it goes on, then a table or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..api.options.tune import ReplayOptions
from ..api.replay import run_replay
from ..core.events import Event, Finished, Step
from ..tuners.recording import Recording
from ..tuners.replay import Summary
from .console import console
from .parameters import chosen


class Bars:
    """One bar per tuner on standard error, where that is a terminal."""

    def __init__(self) -> None:
        screen = console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        self._rows: dict[str, TaskID] = {}

    def emit(self, event: Event) -> None:
        """Draw, advance or take the bars away."""
        match event:
            case Step() if event.text in self._rows:
                self._bars.update(self._rows[event.text], completed=event.done)
            case Step():
                self._bars.start()
                self._rows[event.text] = self._bars.add_task(event.text, total=event.total)
            case Finished():
                self._bars.stop()


def show_replay(given: Mapping[str, Any], as_json: bool) -> int:
    """Replay and print the metrics; 0."""
    result = run_replay(chosen(given, ReplayOptions), Bars().emit)
    if as_json:
        typer.echo(json.dumps(result.summary(), allow_nan=False))
    else:
        replay_table(result.recording, result.summaries)
    return 0


def replay_table(recording: Recording, summaries: Mapping[str, Summary]) -> None:
    """The recording in a line, and one row per tuner."""
    any_summary = next(iter(summaries.values()))
    screen = console()
    screen.print(
        f"{escape(recording.name)}: {recording.space.size} configs, best {recording.best[1]:.6g} ms "
        f"({escape(str(recording.best[0]))})"
    )
    table = Table(
        title=f"unique evaluations, {any_summary['seeds']} seeds, budget {any_summary['budget']}",
        title_justify="left",
    )
    table.add_column("tuner")
    for percent in (95, 99):
        for column in (f"to {percent} %: median", "p90", "reached"):
            table.add_column(column, justify="right")
    table.add_column("best ms, median", justify="right")
    table.add_column("overhead ms", justify="right")
    for name, summary in summaries.items():
        cells = [name]
        for percent in (95, 99):
            cells += [_count(summary[f"{which}_evaluations_to_{percent}"]) for which in ("median", "p90")]
            cells.append(f"{summary[f'reached_{percent}']:.0%}")
        best = summary["median_best_ms"]
        table.add_row(*cells, "-" if best is None else f"{best:.6g}", f"{summary['overhead_ms_per_trial']:.3g}")
    screen.print(table)


def _count(evaluations: float | None) -> str:
    return "-" if evaluations is None else f"{evaluations:g}"
