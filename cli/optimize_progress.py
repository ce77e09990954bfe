"""A run as the user sees it: a table that grows on a terminal, lines in a pipe, nothing when quiet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..agent.analysis import Analysis
from ..agent.stopping import StoppingCriteria
from ..agent.turn import Turn, diff
from ..api.observers import RunObserver
from ..core import Evaluation, Profile, Proposal, Status, ToolCall
from ..core.baselines import against_text
from ..core.text import first_line
from ..core.turn_record import SkippedRule
from .optimize_result import show_result
from .render import Screen, describe_config, status_text

if TYPE_CHECKING:
    from ..api.jobs import Job
    from ..api.optimize_result import OptimizeResult


class RunDisplay(Screen, RunObserver):
    """Shows the result of each run, and what every command shows."""

    def kernel_started(self, number: int, total: int, reference: str) -> None:
        """A heading."""
        self.heading(f"[{number}/{total}] {reference}")

    def run_ended(self, result: OptimizeResult) -> None:
        """The result."""
        show_result(result, self)


class RunLines(RunDisplay):
    """One line per event, for pipes and logs, and for runs with parallel lanes."""

    criteria: StoppingCriteria
    _against = ""

    def run_started(self, job: Job, criteria: StoppingCriteria, model: bool) -> None:
        """What is optimized, and where."""
        self.criteria = criteria
        baseline = against_text(job.against, job.precision)
        self._against = "" if baseline == "the reference" else f" against {baseline}"
        self.line(f"optimizing {job.problem.id} ({job.backend}, workload {job.problem.workload}) on {job.device}")

    def line(self, text: str) -> None:
        """One line, as it is."""
        self.print(escape(text))

    def started(self, start: Evaluation, profile: Profile) -> None:
        """The roofline."""
        self.line(
            f"roofline floor {profile.floor_ms:.3f} ms: {profile.flops / 1e6:.0f} MFLOP, "
            f"{profile.min_bytes / 1e6:.1f} MB; target {self.criteria.target_speedup:g}x{self._against}"
        )

    def analysed(self, lane: str, analysis: Analysis) -> None:
        """The bottleneck and its evidence."""
        number, _, index = lane.partition(".")
        which = f", candidate {int(index) + 1}" if self.criteria.beam > 1 else ""
        self.line(f"turn {self._turn(number)}{which}: bottleneck {analysis.category}, {analysis.performance}")
        for evidence in analysis.evidence:
            self.line(f"  {evidence}")

    def proposed(self, lane: str, proposal: Proposal, trials: int) -> None:
        """The strategy and why."""
        why = f": {proposal.rationale}" if proposal.rationale else ""
        self.line(f"  {self._lane(lane)}{proposal.strategy}{why}")

    def rules_skipped(self, lane: str, rules: Sequence[SkippedRule]) -> None:
        """Rules that failed; with `--verbose` also those that do not fit, and why."""
        for one in rules:
            if one.failed:
                self.line(f"  {self._lane(lane)}rule failed: {one.rule}: {one.reason} (a bug: please report it)")
            elif self.display.verbose:
                self.line(f"  {self._lane(lane)}rule {one.rule} does not fit: {one.reason}")

    def screening(self, lane: str, proposals: Sequence[Proposal]) -> None:
        """The changes that are tried."""
        self.line(f"  {self._lane(lane)}trying {', '.join(one.strategy for one in proposals)}")

    def trial(self, origin: str, evaluation: Evaluation) -> None:
        """One config and its time."""
        latency, speedup = trial_metrics(evaluation)
        remark = f" {first_line(evaluation.message, 100)}" if not evaluation.ok else ""
        if evaluation.contention is not None:
            remark += f" ({disturbance(evaluation.contention)})"
        config = describe_config(evaluation.config)
        self.line(f"  [{origin}] {config}: {evaluation.status} {latency} {speedup}".rstrip() + remark)
        if self.display.verbose and not evaluation.ok:
            self.line(evaluation.message)
            self.line(evaluation.log)

    def tool(self, lane: str, call: ToolCall) -> None:
        """A tool that a model used."""
        if call.name != "evaluate":  # its trial is shown already
            self.line(f"  {self._lane(lane)}tool {call.name}: {'done' if call.ok else 'failed'}, {call.seconds:.1f} s")

    def failed(self, lane: str, error: str) -> None:
        """Why there is no proposal."""
        self.line(f"  {self._lane(lane)}{first_line(error, 100)}")

    def turn_ended(self, turn: Turn) -> None:
        """What the turn gained and cost, and what each change gained that was tried beside others."""
        if turn.tried:
            gains = (f"{one.proposal.strategy} {gain_text(one.gain)}" for one in turn.tried if one.proposal)
            self.line(f"  {self._lane(f'{turn.number}.{turn.lane}')}tried: {', '.join(gains)}")
        speedup = turn.found.evaluation.speedup if turn.found is not None and turn.improved else None
        gain = f"the fastest so far: {speedup} against the reference" if speedup else "no improvement"
        cost = f" ({turn.cost['tokens']} tokens, ${turn.cost['dollars']:.4f})" if turn.cost else ""
        self.line(f"  {self._lane(f'{turn.number}.{turn.lane}')}{gain}{cost}")
        if self.display.verbose and turn.improved and turn.kernel is not None:
            self.line(diff(turn.before.kernel.source, turn.kernel.source))

    def _turn(self, number: str) -> str:
        return f"{number}/{self.criteria.max_iterations}" if self.criteria.max_iterations else number

    def _lane(self, lane: str) -> str:
        return f"({lane}) " if self.criteria.beam > 1 else ""


class RunTable(RunLines):
    """A table that grows under a progress bar, one per turn. What runs side by side, or talks, is shown in lines."""

    _live: Live | None = None
    _analysis: Analysis | None = None
    _explained = False
    _best_ms: float | None = None
    _lines = False
    _first = "config"

    def run_started(self, job: Job, criteria: StoppingCriteria, model: bool) -> None:
        """What is optimized, and where."""
        super().run_started(job, criteria, model)
        self._lines = model or criteria.beam > 1

    def started(self, start: Evaluation, profile: Profile) -> None:
        """The roofline."""
        super().started(start, profile)
        self._best_ms = start.latency_ms

    def analysed(self, lane: str, analysis: Analysis) -> None:
        """The bottleneck, which the turn's heading shows."""
        self._analysis, self._explained = analysis, False
        if self._lines:
            super().analysed(lane, analysis)

    def proposed(self, lane: str, proposal: Proposal, trials: int) -> None:
        """A heading, and an empty table."""
        if self._lines:
            super().proposed(lane, proposal, trials)
            return
        self._begin_table(lane, proposal.strategy, proposal.rationale, "config", trials)

    def screening(self, lane: str, proposals: Sequence[Proposal]) -> None:
        """A heading, and an empty table with a row for each change."""
        if self._lines:
            super().screening(lane, proposals)
            return
        what = f"{len(proposals)} change{'s' if len(proposals) > 1 else ''}"
        self._begin_table(lane, what, "tried side by side", "change", len(proposals) + 1)

    def _begin_table(self, lane: str, what: str, why: str, first: str, trials: int) -> None:
        self.close()  # a turn may have several
        assert self._analysis is not None
        title = f"turn {self._turn(lane.partition('.')[0])} · {self._analysis.category} · {what}"
        self.console.rule(escape(title), align="left")
        if not self._explained:
            self.console.print(f"[dim]{escape('; '.join(self._analysis.evidence))}[/]")
            self._explained = True
        self.console.print(escape(why))
        self._first = first
        self._table = Table(box=None, pad_edge=False)
        for column in (first, "status", "latency", "speedup", ""):
            self._table.add_column(column, justify="right" if column in ("latency", "speedup") else "left")
        columns = (TextColumn("trial"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns)
        self._task = self._bar.add_task("", total=trials)
        self._live = Live(Group(self._table, self._bar), console=self.console, refresh_per_second=8)
        self._live.start()

    def trial(self, origin: str, evaluation: Evaluation) -> None:
        """A row of the table, beside the best so far."""
        if self._live is None:
            super().trial(origin, evaluation)
            return
        latency, speedup = trial_metrics(evaluation)
        better = ""
        if evaluation.latency_ms and self._best_ms:
            better = "[green]faster than the best[/]" if evaluation.latency_ms < self._best_ms else ""
        if evaluation.contention is not None:
            better = f"[yellow]{disturbance(evaluation.contention)}[/]"
        if evaluation.status is Status.UNPROVEN:
            better = f"[yellow]{escape(first_line(evaluation.message, 100))}[/]"
        remark = better if evaluation.correct else f"[red]{escape(first_line(evaluation.message, 100))}[/]"
        status = status_text(evaluation.status)
        what = describe_config(evaluation.config)
        if self._first == "change":
            name = origin.partition(": ")[2]
            what = f"{name} ({what})" if evaluation.config else name
        self._table.add_row(escape(what), status, latency, speedup, remark)
        self._bar.advance(self._task)

    def turn_ended(self, turn: Turn) -> None:
        """The end of the table, and what the turn gained."""
        self.close()
        if turn.improved and turn.found is not None:
            self._best_ms = turn.found.latency_ms
        super().turn_ended(turn)

    def close(self) -> None:
        """Leave the terminal as it was, whatever ended the run."""
        if self._live is not None:
            self._live.update(self._table)
            self._live.stop()
            self._live = None


def disturbance(cores: float) -> str:
    """'others used 0.8 cores'; where nobody did, the times vary by themselves."""
    return f"others used {cores:.1f} cores" if cores >= 0.05 else "times vary"


def gain_text(gain: float | None) -> str:
    """'1.32x', or 'failed'."""
    return f"{gain:.2f}x" if gain else "failed"


def trial_metrics(evaluation: Evaluation) -> tuple[str, str]:
    """Latency and speedup as short texts, empty where there are none."""
    speedup = evaluation.speedup
    latency = f"{evaluation.latency_ms:.3f} ms" if evaluation.latency_ms else ""
    return latency, f"{speedup.ratio:.3f}x" if speedup else ""
