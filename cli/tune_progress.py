"""A search as the user sees it: a live table on a terminal, lines in a pipe, nothing when quiet."""

from __future__ import annotations

from collections import deque

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from ..core import Evaluation
from ..core.events import Event, FinalsStarted, Finished, SearchStarted, TrialDone
from ..core.text import first_line
from ..tuners.search import SEARCHED
from .render import Display, Screen, describe_config, status_text

ROWS = 8
"""Of the latest trials, in the live table."""


def search_display(display: Display) -> SearchDisplay:
    """How a search is shown: live, in lines, or only its result."""
    if display.quiet:
        return SearchDisplay(display)
    live = SearchTable(display)
    return live if live.live else SearchLines(display)


class SearchDisplay(Screen):
    """Shows warnings, and the result when it is there."""


class SearchLines(SearchDisplay):
    """One line per trial."""

    _of = ""

    def emit(self, event: Event) -> None:
        """Show an event of a search."""
        match event:
            case SearchStarted():
                self._started(event)
            case TrialDone(origin=origin) if origin == SEARCHED:
                self.trial(event)
            case FinalsStarted():
                self.finals(f"measuring {len(event.configs) - 1} finalists and the unchanged kernel, interleaved")
            case Finished():
                self.close()
            case _:
                super().emit(event)

    def _started(self, search: SearchStarted) -> None:
        """The space, and what the device leaves of it."""
        configs = f"some of {search.space.cardinality}" if search.configs is None else search.configs
        left_out = left_out_text(search)
        self.note(
            f"tuning {search.name}: {configs} configs ({search.origin} space), {left_out} ruled out by the device"
        )
        for rule in search.rules:
            self.note(f"  device: {rule}")
        self._of = f"/{search.most_trials}" if search.most_trials else ""
        self.begin(search)

    def begin(self, search: SearchStarted) -> None:
        """Before the first trial."""

    def trial(self, trial: TrialDone) -> None:
        """One line."""
        evaluation = trial.evaluation
        latency = f"{evaluation.latency_ms:.4f} ms" if evaluation.latency_ms else ""
        mark = "  best" if trial.best is evaluation else ""
        config = describe_config(evaluation.config)
        self.note(f"[{trial.number}{self._of}] {config}: {evaluation.status} {latency}{mark}{remark(evaluation)}")

    def finals(self, text: str) -> None:
        """One line."""
        self.note(text)

    def close(self) -> None:
        """The search ended, however."""


class SearchTable(SearchLines):
    """The latest trials, the counts, the best so far, and how much is left."""

    _live: Live | None = None

    def begin(self, search: SearchStarted) -> None:
        """Draw the table."""
        self._search = search
        self._latest: deque[tuple[str, ...]] = deque(maxlen=ROWS)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        self._bar = ProgressBar(*columns)
        self._task = self._bar.add_task("trial 0", total=search.most_trials, left="")
        self._live = Live(console=self.console, refresh_per_second=8)
        self._live.start()

    def trial(self, trial: TrialDone) -> None:
        """A row."""
        if self._live is None:
            return
        evaluation = trial.evaluation
        latency = f"{evaluation.latency_ms:.4f} ms" if evaluation.latency_ms else ""
        mark = "[bold]best[/]" if trial.best is evaluation else f"[dim]{escape(remark(evaluation).strip())}[/]"
        config = escape(describe_config(evaluation.config))
        self._latest.append((str(trial.number), config, status_text(evaluation.status), latency, mark))
        described = f"trial {trial.number}{self._of}"
        self._bar.update(self._task, completed=trial.number, description=described, left=self._left(trial))
        self._live.update(self._view(trial))

    def finals(self, text: str) -> None:
        """One line above the table."""
        self.console.print(text)

    def close(self) -> None:
        """Leave the table as it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _left(self, trial: TrialDone) -> str:
        """An estimate: whichever of trials and time ends first."""
        total, limit_s = self._search.most_trials, self._search.budget.seconds
        each = trial.seconds / trial.number  # both count what an earlier run has done
        by_trials = (total - trial.number) * each if total else None
        by_time = limit_s - trial.seconds if limit_s else None
        left = min((max(0.0, x) for x in (by_trials, by_time) if x is not None), default=None)
        return f"{trial.seconds:.0f} s, about {left:.0f} s left" if left is not None else f"{trial.seconds:.0f} s"

    def _view(self, trial: TrialDone) -> RenderableType:
        table = Table(box=None, pad_edge=False)
        for column in ("#", "config", "status", "latency", ""):
            table.add_column(column, justify="right" if column in ("#", "latency") else "left")
        for row in self._latest:
            table.add_row(*row)
        best = trial.best
        so_far = f"best {best.latency_ms:.4f} ms: {describe_config(best.config)}" if best else "nothing correct so far"
        counts = (
            f"{trial.number - trial.failed} correct, {trial.failed} failed, {left_out_text(self._search)} ruled out, "
            f"{trial.duplicates} duplicates"
        )
        return Group(table, Text(so_far, style="bold"), Text(counts), self._bar)


def left_out_text(search: SearchStarted) -> str:
    """'7', or 'some' where they cannot be counted."""
    return "some" if search.ruled_out is None else str(search.ruled_out)


def remark(evaluation: Evaluation) -> str:
    """Return the remark on a trial beside its time."""
    if evaluation.duplicate_of is not None:
        return f"  (the code of {describe_config(evaluation.duplicate_of)})"
    if evaluation.contention is not None:
        return f"  (others used {evaluation.contention:.1f} cores)"
    return f"  {first_line(evaluation.message, 100)}" if evaluation.message else ""
