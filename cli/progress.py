"""A run as the user sees it: a table that grows on a terminal, lines in a pipe, nothing when quiet."""

from __future__ import annotations

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..agent.analysis import Analysis
from ..agent.observer import Observer
from ..agent.stopping import StoppingCriteria
from ..agent.turn import ToolCall, Turn, diff
from ..core import Evaluation, Profile, Proposal
from ..core.text import first_line
from . import wiring
from .render import Screen, describe_config


def observer_for(screen: Screen, job: wiring.Job, goal: StoppingCriteria, model: bool) -> Observer:
    """How a run is shown: live, in lines, or not at all. What runs side by side, or talks, is shown in lines."""
    if screen.request.quiet:
        return Silent()
    live = screen.live and goal.beam == 1 and not model
    return LiveObserver(screen, job, goal) if live else LineObserver(screen, job, goal)


class Silent:
    """Shows nothing."""

    def started(self, start: Evaluation, profile: Profile) -> None: ...
    def analysed(self, lane: str, analysis: Analysis) -> None: ...
    def proposed(self, lane: str, proposal: Proposal, trials: int) -> None: ...
    def trial(self, origin: str, evaluation: Evaluation) -> None: ...
    def tool(self, lane: str, call: ToolCall) -> None: ...
    def failed(self, lane: str, error: str) -> None: ...
    def turn_ended(self, turn: Turn) -> None: ...
    def close(self) -> None: ...


class LineObserver:
    """One line per event, for pipes and logs, and for runs whose lanes go on side by side."""

    def __init__(self, screen: Screen, job: wiring.Job, goal: StoppingCriteria) -> None:
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

    def analysed(self, lane: str, analysis: Analysis) -> None:
        number, _, index = lane.partition(".")
        which = f", candidate {int(index) + 1}" if self.goal.beam > 1 else ""
        self.print(
            f"turn {number}/{self.goal.max_iterations}{which}: bottleneck {analysis.category}, {analysis.performance}"
        )
        for evidence in analysis.evidence:
            self.print(f"  {evidence}")

    def proposed(self, lane: str, proposal: Proposal, trials: int) -> None:
        self.print(f"  {self._lane(lane)}{proposal.strategy}: {proposal.rationale}")

    def trial(self, origin: str, evaluation: Evaluation) -> None:
        latency, speedup = trial_figures(evaluation)
        failure = f" {first_line(evaluation.message, 100)}" if not evaluation.ok else ""
        if evaluation.contention is not None:
            failure = f" (others used {evaluation.contention:.1f} cores)"
        self.print(
            f"  [{origin}] {describe_config(evaluation.config)}: {evaluation.status} {latency} {speedup}".rstrip()
            + failure
        )
        if self.screen.request.verbose and not evaluation.ok:
            self.print(evaluation.message)
            self.print(evaluation.log)

    def tool(self, lane: str, call: ToolCall) -> None:
        if call.name != "evaluate":  # its trial is shown already
            self.print(f"  {self._lane(lane)}tool {call.name}: {'done' if call.ok else 'failed'}, {call.seconds:.1f} s")

    def failed(self, lane: str, error: str) -> None:
        self.print(f"  {self._lane(lane)}{first_line(error, 100)}")

    def turn_ended(self, turn: Turn) -> None:
        gain = f"improved by {turn.gain - 1:.1%}" if turn.improved else "no improvement"
        cost = f" ({turn.cost['tokens']} tokens, ${turn.cost['dollars']:.4f})" if turn.cost else ""
        self.print(f"  {self._lane(f'{turn.number}.{turn.lane}')}{gain}{cost}")
        if self.screen.request.verbose and turn.improved and turn.kernel is not None:
            self.print(diff(turn.before.kernel.source, turn.kernel.source))

    def close(self) -> None:
        """Leave the terminal as it was, whatever ended the run."""

    def _lane(self, lane: str) -> str:
        return f"({lane}) " if self.goal.beam > 1 else ""


class LiveObserver(LineObserver):
    """A table that grows under a progress bar, one per turn."""

    def __init__(self, screen: Screen, job: wiring.Job, goal: StoppingCriteria) -> None:
        self._live: Live | None = None
        self._analysis: Analysis | None = None
        self._best_ms: float | None = None
        super().__init__(screen, job, goal)

    def started(self, start: Evaluation, profile: Profile) -> None:
        super().started(start, profile)
        self._best_ms = start.latency_ms

    def analysed(self, lane: str, analysis: Analysis) -> None:
        self._analysis = analysis

    def proposed(self, lane: str, proposal: Proposal, trials: int) -> None:
        assert self._analysis is not None
        console = self.screen.console
        number = lane.partition(".")[0]
        title = f"turn {number}/{self.goal.max_iterations} · {self._analysis.category} · {proposal.strategy}"
        console.rule(escape(title), align="left")
        console.print(f"[dim]{escape('; '.join(self._analysis.evidence))}[/]")
        console.print(escape(proposal.rationale))
        self._table = Table(box=None, pad_edge=False)
        for column in ("config", "status", "latency", "speedup", ""):
            self._table.add_column(column, justify="right" if column in ("latency", "speedup") else "left")
        columns = (TextColumn("trial"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns)
        self._task = self._bar.add_task("", total=trials)
        self._live = Live(Group(self._table, self._bar), console=console, refresh_per_second=8)
        self._live.start()

    def trial(self, origin: str, evaluation: Evaluation) -> None:
        if self._live is None:
            super().trial(origin, evaluation)
            return
        latency, speedup = trial_figures(evaluation)
        color = "green" if evaluation.ok else "red"
        better = ""
        if evaluation.latency_ms and self._best_ms:
            change = self._best_ms / evaluation.latency_ms
            better = f"[green]{change:.2f} times the best[/]" if change > 1 else f"[dim]{change:.2f}[/]"
        if evaluation.contention is not None:
            better = f"[yellow]others used {evaluation.contention:.1f} cores[/]"
        remark = better if evaluation.ok else f"[red]{escape(first_line(evaluation.message, 100))}[/]"
        self._table.add_row(
            escape(describe_config(evaluation.config)),
            f"[{color}]{evaluation.status}[/]",
            latency,
            speedup,
            remark,
        )
        self._bar.advance(self._task)

    def turn_ended(self, turn: Turn) -> None:
        self.close()
        if turn.improved and turn.found is not None:
            self._best_ms = turn.found.latency_ms
        super().turn_ended(turn)

    def close(self) -> None:
        if self._live is not None:
            self._live.update(self._table)
            self._live.stop()
            self._live = None


def trial_figures(evaluation: Evaluation) -> tuple[str, str]:
    """Latency and speedup as short texts, empty where there are none."""
    speedup = evaluation.speedup
    latency = f"{evaluation.latency_ms:.3f} ms" if evaluation.latency_ms else ""
    return latency, f"{speedup.ratio:.3f}x" if speedup else ""
