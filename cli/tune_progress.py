"""A search as the user sees it: a live table on a terminal, lines in a pipe, nothing when quiet."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from ..api.observers import SearchObserver
from ..api.tuned import count, ruled_out
from ..core import Budget, Config, Evaluation, SearchSpace
from ..core.text import first_line
from ..tuners.discovery import FoundSpace
from ..tuners.search import Progress
from .render import Display, Screen, describe_config, status_text

ROWS = 8
"""Of the latest trials, in the live table."""


def search_display(display: Display) -> SearchDisplay:
    """How a search is shown: live, in lines, or only its result."""
    if display.quiet:
        return SearchDisplay(display)
    live = SearchTable(display)
    return live if live.live else SearchLines(display)


class SearchDisplay(Screen, SearchObserver):
    """Shows warnings, and the result when it is there."""


class SearchLines(SearchDisplay):
    """One line per trial."""

    _of = ""

    def search_started(
        self, name: str, found: FoundSpace, space: SearchSpace, rules: Sequence[str], budget: Budget
    ) -> None:
        """The space, and what the device leaves of it."""
        size, pruned = count(space), ruled_out(found, space)
        configs = f"some of {space.cardinality}" if size is None else size
        left_out = "some" if pruned is None else str(pruned)
        self.note(f"tuning {name}: {configs} configs ({found.origin} space), {left_out} ruled out by the device")
        for rule in rules:
            self.note(f"  device: {rule}")
        total = min([n for n in (budget.trials, size) if n], default=None)
        self._of = f"/{total}" if total else ""
        self.begin(total, left_out, budget)

    def begin(self, total: int | None, left_out: str, budget: Budget) -> None:
        """Before the first trial."""

    def trial(self, evaluation: Evaluation, progress: Progress) -> None:
        """One line."""
        latency = f"{evaluation.latency_ms:.4f} ms" if evaluation.latency_ms else ""
        mark = "  best" if progress.best is evaluation else ""
        config = describe_config(evaluation.config)
        self.note(f"[{progress.trials}{self._of}] {config}: {evaluation.status} {latency}{mark}{remark(evaluation)}")

    def finals(self, configs: Sequence[Config]) -> None:
        """One line."""
        self.note(f"measuring {len(configs) - 1} finalists and the unchanged kernel, interleaved")


class SearchTable(SearchLines):
    """The latest trials, the counts, the best so far, and how much is left."""

    _live: Live | None = None

    def begin(self, total: int | None, left_out: str, budget: Budget) -> None:
        """Draw the table."""
        self._left_out = left_out
        self._seconds = budget.seconds
        self._total = total
        self._latest: deque[tuple[str, ...]] = deque(maxlen=ROWS)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        self._bar = ProgressBar(*columns)
        self._task = self._bar.add_task("trial 0", total=total, left="")
        self._live = Live(console=self.console, refresh_per_second=8)
        self._live.start()

    def trial(self, evaluation: Evaluation, progress: Progress) -> None:
        """A row."""
        if self._live is None:
            return
        latency = f"{evaluation.latency_ms:.4f} ms" if evaluation.latency_ms else ""
        mark = "[bold]best[/]" if progress.best is evaluation else f"[dim]{escape(remark(evaluation).strip())}[/]"
        config = escape(describe_config(evaluation.config))
        self._latest.append((str(progress.trials), config, status_text(evaluation.status), latency, mark))
        of = f"/{self._total}" if self._total else ""
        self._bar.update(
            self._task, completed=progress.trials, description=f"trial {progress.trials}{of}", left=self._left(progress)
        )
        self._live.update(self._view(progress))

    def finals(self, configs: Sequence[Config]) -> None:
        """One line above the table."""
        self.console.print(f"measuring {len(configs) - 1} finalists and the unchanged kernel, interleaved")

    def close(self) -> None:
        """Leave the table as it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _left(self, progress: Progress) -> str:
        """An estimate: whichever of trials and time ends first."""
        each = progress.seconds / progress.trials  # both count what an earlier run has done
        by_trials = (self._total - progress.trials) * each if self._total else None
        by_time = self._seconds - progress.seconds if self._seconds else None
        left = min((max(0.0, x) for x in (by_trials, by_time) if x is not None), default=None)
        return f"{progress.seconds:.0f} s, about {left:.0f} s left" if left is not None else f"{progress.seconds:.0f} s"

    def _view(self, progress: Progress) -> RenderableType:
        table = Table(box=None, pad_edge=False)
        for column in ("#", "config", "status", "latency", ""):
            table.add_column(column, justify="right" if column in ("#", "latency") else "left")
        for row in self._latest:
            table.add_row(*row)
        best = progress.best
        so_far = f"best {best.latency_ms:.4f} ms: {describe_config(best.config)}" if best else "nothing correct so far"
        counts = (
            f"{progress.trials - progress.failed} correct, {progress.failed} failed, {self._left_out} ruled out, "
            f"{progress.duplicates} duplicates"
        )
        return Group(table, Text(so_far, style="bold"), Text(counts), self._bar)


def remark(evaluation: Evaluation) -> str:
    """Return the remark on a trial beside its time."""
    if evaluation.duplicate_of is not None:
        return f"  (the code of {describe_config(evaluation.duplicate_of)})"
    if evaluation.contention is not None:
        return f"  (others used {evaluation.contention:.1f} cores)"
    return f"  {first_line(evaluation.message, 100)}" if evaluation.message else ""
