"""What the user sees: a live table on a terminal, plain lines in a pipe, nothing but the result when quiet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..agent.analysis import Analysis
from ..agent.loop import Goal, Observer
from ..agent.turn import Turn, diff
from ..core import Evaluation, Profile, Proposal, Value
from . import wiring
from .request import Request

if TYPE_CHECKING:
    from .optimize import Finished


def console(stderr: bool = False) -> Console:
    """A console that does not cut tables to 80 columns where there is no terminal to fit into."""
    plain = Console(stderr=stderr, highlight=False)
    return plain if plain.is_terminal else Console(stderr=stderr, highlight=False, soft_wrap=True, width=160)


class Screen:
    """Where text goes: with --json standard output is for the object alone, so text goes to standard error."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.console = console(stderr=request.json or request.list_slow)
        self.errors = console(stderr=True)

    @property
    def live(self) -> bool:
        return self.console.is_terminal and not self.request.quiet

    def print(self, *parts: Any) -> None:
        self.console.print(*parts)

    def note(self, text: str) -> None:
        if not self.request.quiet:
            self.console.print(escape(text))

    def warn(self, text: str) -> None:
        self.errors.print(f"[yellow]warning:[/] {escape(text)}")

    def heading(self, text: str) -> None:
        if not self.request.quiet:
            self.console.rule(escape(text)) if self.live else self.console.print(escape(text))

    @contextlib.contextmanager
    def working(self, text: str) -> Iterator[None]:
        """A spinner while something runs; one line where there is no terminal."""
        if self.live:
            with self.console.status(escape(text)):
                yield
        else:
            self.note(text)
            yield

    @contextlib.contextmanager
    def progress(self, text: str, total: int) -> Iterator[Callable[[str], None]]:
        """A progress bar; yields what to call after each step. Lines on standard error without a terminal."""
        if not self.live:
            done = 0

            def count(name: str) -> None:
                nonlocal done
                done += 1
                self.note(f"{text} {done}/{total}: {name}")

            yield count
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(text, total=total)

            def advance(name: str) -> None:
                bar.update(task, advance=1, description=f"{text} {name}")

            yield advance

    def slow_table(self, rows: list[dict[str, Any]], measured: int, threshold: float) -> None:
        """Kernels below the threshold, on a terminal."""
        table = Table(title=f"{len(rows)} of {measured} kernels below {threshold:g}x", title_justify="left")
        for column in ("kernel", "speedup", "", "latency ms", "reference ms", "problem"):
            table.add_column(column, justify="right" if "ms" in column or column == "speedup" else "left")
        colors = {"SLOW": "red", "MODERATE": "yellow", "GOOD": "green"}
        for row in rows:
            category = f"[{colors[row['category']]}]{row['category']}[/]"
            figures = (f"{row['latency_ms']:.3f}", f"{row['reference_ms']:.3f}")
            table.add_row(row["kernel"], f"{row['speedup']:.3f}x", category, *figures, escape(row["problem"]))
        console().print(table)

    def batch_table(self, summaries: list[dict[str, Any]]) -> None:
        """One row per kernel of a batch."""
        table = Table(title="batch", title_justify="left")
        for column in ("kernel", "start ms", "best ms", "faster", "against reference", "target", "result"):
            table.add_column(column, justify="right" if "ms" in column or column == "faster" else "left")
        for summary in summaries:
            table.add_row(summary["problem"], *_batch_row(summary))
        if not self.request.quiet:
            self.console.print(table)

    def finished(self, finished: Finished) -> None:
        """The result of a run."""
        outcome = finished.outcome
        if not outcome.verified or outcome.best.speedup is None or outcome.start.latency_ms is None:
            self.errors.print(f"[red]failed:[/] {escape(finished.job.problem.id)}: {escape(outcome.stopped)}")
            if outcome.best.log and self.request.verbose:
                self.errors.print(escape(outcome.best.log))
            return
        latency = outcome.best.latency_ms or 0.0
        reached = outcome.reached(finished.target)
        mark = "[green]reached[/]" if reached else "[yellow]not reached[/]"
        self.console.print(
            f"[bold]{escape(finished.job.problem.id)}[/]: "
            f"{outcome.start.latency_ms:.3f} ms -> [bold]{latency:.3f} ms[/], "
            f"{outcome.start.latency_ms / latency:.2f} times as fast as the start; "
            f"[bold]{escape(str(outcome.best.speedup))}[/] against the reference"
        )
        self.console.print(f"target {finished.target:g}x {mark}; stopped: {escape(outcome.stopped)}")
        if outcome.best.contention is not None:
            self.warn(busy(outcome.best.contention))
        for what, path in (("kernel", finished.kernel), ("history", finished.history)):
            if path is not None:
                self.console.print(f"{what}: {escape(str(path))}")


def _batch_row(summary: Mapping[str, Any]) -> tuple[str, ...]:
    if not summary["verified"] or not summary.get("best", {}).get("speedup"):
        return ("", "", "", "", "", f"[red]{escape(str(summary.get('error') or summary.get('stopped')))}[/]")
    start, best = summary["start"]["latency_ms"], summary["best"]["latency_ms"]
    return (
        f"{start:.3f}",
        f"{best:.3f}",
        f"{start / best:.2f}x",
        f"{summary['best']['speedup']:.3f}x",
        "[green]reached[/]" if summary["target_reached"] else "not reached",
        escape(summary["stopped"]),
    )


def busy(cores: float) -> str:
    """What a measurement beside other processes is worth."""
    return (
        f"other processes used {cores:.1f} cores while this was timed, so its speedup cannot be trusted; "
        "run it again on a quiet machine"
    )


def describe_config(config: Mapping[str, Value]) -> str:
    """'BLOCK_M=32, THREADS=2'; long texts such as compiler flags are cut."""
    parts = []
    for name, value in config.items():
        text = str(value)
        parts.append(f"{name}={text if len(text) <= 24 else text[:10] + '...' + text[-11:]}")
    return ", ".join(parts) or "as it stands"


def describe_evaluation(job: wiring.Job, evaluation: Evaluation) -> str:
    """One evaluation in a few words, with rich markup."""
    color = "green" if evaluation.ok else "red"
    text = f"[bold]{escape(job.problem.id)}[/] ({job.problem.workload}): [{color}]{evaluation.status}[/]"
    if evaluation.measurement and evaluation.reference and evaluation.speedup:
        text += (
            f", {evaluation.measurement.median_ms:.3f} ms against {evaluation.reference.median_ms:.3f} ms, "
            f"{escape(str(evaluation.speedup))}"
        )
    if evaluation.correctness:
        checked = evaluation.correctness
        text += f", largest error {checked.max_abs_error:.2g} in {checked.trials} trials"
    if evaluation.contention is not None:
        text += f"\n[yellow]warning:[/] {busy(evaluation.contention)}"
    return text + (f"\n{escape(evaluation.message)}" if evaluation.message else "")


def observer_for(screen: Screen, job: wiring.Job, goal: Goal) -> Observer:
    """How a run is shown: live, in lines, or not at all."""
    if screen.request.quiet:
        return Silent()
    return LiveObserver(screen, job, goal) if screen.live else LineObserver(screen, job, goal)


class Silent:
    """Shows nothing."""

    def started(self, start: Evaluation, profile: Profile) -> None: ...
    def turn_started(self, number: int, analysis: Analysis, proposal: Proposal, trials: int) -> None: ...
    def trial(self, origin: str, evaluation: Evaluation, best: Evaluation | None) -> None: ...
    def turn_ended(self, turn: Turn) -> None: ...


class LineObserver:
    """One line per event, for pipes and logs."""

    def __init__(self, screen: Screen, job: wiring.Job, goal: Goal) -> None:
        self.screen = screen
        self.job = job
        self.goal = goal
        self.print(f"optimizing {job.problem.id} ({job.backend}, workload {job.problem.workload}) on {job.device}")

    def print(self, text: str) -> None:
        self.screen.print(escape(text))

    def started(self, start: Evaluation, profile: Profile) -> None:
        self.print(
            f"roofline floor {profile.floor_ms:.3f} ms: {profile.flops / 1e6:.0f} MFLOP, "
            f"{profile.min_bytes / 1e6:.1f} MB; target {self.goal.target_speedup:g}x"
        )

    def turn_started(self, number: int, analysis: Analysis, proposal: Proposal, trials: int) -> None:
        self.print(f"turn {number}/{self.goal.max_iterations}: bottleneck {analysis.category}, {analysis.performance}")
        for evidence in analysis.evidence:
            self.print(f"  {evidence}")
        self.print(f"  {proposal.strategy}: {proposal.rationale}")

    def trial(self, origin: str, evaluation: Evaluation, best: Evaluation | None) -> None:
        latency, speedup = trial_figures(evaluation)
        failure = f" {first_line(evaluation.message)}" if not evaluation.ok else ""
        if evaluation.contention is not None:
            failure = f" (others used {evaluation.contention:.1f} cores)"
        self.print(
            f"  [{origin}] {describe_config(evaluation.config)}: {evaluation.status} {latency} {speedup}".rstrip()
            + failure
        )
        if self.screen.request.verbose and not evaluation.ok:
            self.print(evaluation.message)
            self.print(evaluation.log)

    def turn_ended(self, turn: Turn) -> None:
        gain = f"improved by {turn.gain - 1:.1%}" if turn.improved else "no improvement"
        self.print(f"  {gain}")
        if self.screen.request.verbose and turn.improved:
            self.print(diff(turn.before.source, turn.proposal.kernel.source))


class LiveObserver(LineObserver):
    """A table that grows under a progress bar, one per turn."""

    def __init__(self, screen: Screen, job: wiring.Job, goal: Goal) -> None:
        self._live: Live | None = None
        super().__init__(screen, job, goal)

    def turn_started(self, number: int, analysis: Analysis, proposal: Proposal, trials: int) -> None:
        console = self.screen.console
        console.rule(
            f"turn {number}/{self.goal.max_iterations} · {analysis.category} · {proposal.strategy}",
            align="left",
        )
        console.print(f"[dim]{escape('; '.join(analysis.evidence))}[/]")
        console.print(escape(proposal.rationale))
        self._table = Table(box=None, pad_edge=False)
        for column in ("config", "status", "latency", "speedup", ""):
            self._table.add_column(column, justify="right" if column in ("latency", "speedup") else "left")
        columns = (TextColumn("trial"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns)
        self._task = self._bar.add_task("", total=trials)
        self._live = Live(Group(self._table, self._bar), console=console, refresh_per_second=8)
        self._live.start()

    def trial(self, origin: str, evaluation: Evaluation, best: Evaluation | None) -> None:
        if self._live is None:
            super().trial(origin, evaluation, best)
            return
        latency, speedup = trial_figures(evaluation)
        color = "green" if evaluation.ok else "red"
        better = ""
        if evaluation.latency_ms and best and best.latency_ms:
            change = best.latency_ms / evaluation.latency_ms
            better = f"[green]{change:.2f} times the best[/]" if change > 1 else f"[dim]{change:.2f}[/]"
        if evaluation.contention is not None:
            better = f"[yellow]others used {evaluation.contention:.1f} cores[/]"
        remark = better if evaluation.ok else f"[red]{escape(first_line(evaluation.message))}[/]"
        self._table.add_row(
            escape(describe_config(evaluation.config)),
            f"[{color}]{evaluation.status}[/]",
            latency,
            speedup,
            remark,
        )
        self._bar.advance(self._task)

    def turn_ended(self, turn: Turn) -> None:
        if self._live is not None:
            self._live.update(self._table)
            self._live.stop()
            self._live = None
        super().turn_ended(turn)


def trial_figures(evaluation: Evaluation) -> tuple[str, str]:
    """Latency and speedup as short texts, empty where there are none."""
    speedup = evaluation.speedup
    latency = f"{evaluation.latency_ms:.3f} ms" if evaluation.latency_ms else ""
    return latency, f"{speedup.ratio:.3f}x" if speedup else ""


def first_line(text: str) -> str:
    """The first line of a message, cut to what a table holds."""
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 100 else line[:97] + "..."
