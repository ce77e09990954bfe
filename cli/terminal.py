"""Shows a command and its runs on the terminal: a growing table, lines in a pipe, nothing if quiet."""

from __future__ import annotations

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..core import Evaluation, Status
from ..core.events import (
    Analysed,
    Event,
    Finished,
    ProposalFailed,
    Proposed,
    RulesSkipped,
    RunStarted,
    SearchStarted,
    StartMeasured,
    ToolUsed,
    TrialDone,
    TurnEnded,
)
from ..core.text import first_line
from ..runtime.result import describe_config, sanitizer_line, status_text, table
from .screens import Screen, SearchLines, SearchTable


class Terminal(Screen):
    """Becomes the display of a search, or of a run, when one begins."""

    _of: Screen | None = None

    def emit(self, event: Event) -> None:
        """Show an event."""
        if self._of is None and isinstance(event, RunStarted | SearchStarted | TrialDone):
            self._of = self._display_of(event)
            self._of.console, self._of.errors = self.console, self.errors
            self._of.steps, self._of.shown = self.steps, self.shown
        if self._of is not None:
            self._of.emit(event)
        else:
            super().emit(event)

    def _display_of(self, event: Event) -> Screen:
        """How a run or a search is shown: only its result, live, or in lines."""
        if self.display.quiet:
            return Screen(self.display)
        live, lines = (RunTable, RunLines) if isinstance(event, RunStarted) else (SearchTable, SearchLines)
        return live(self.display) if self.live and not isinstance(event, TrialDone) else lines(self.display)


class RunLines(Screen):
    """One line per event, for pipes and logs, and for runs with parallel lanes."""

    _run: RunStarted

    def emit(self, event: Event) -> None:
        """Show an event of a run."""
        match event:
            case RunStarted():
                self.run_started(event)
            case StartMeasured():
                self.start_measured(event)
            case Analysed():
                self.analysed(event)
            case Proposed():
                self.proposed(event)
            case RulesSkipped():
                self.rules_skipped(event)
            case TrialDone():
                self.trial(event)
            case ToolUsed(call=call) if call.name != "evaluate":  # its trial is shown already
                done = "done" if call.ok else "failed"
                self.line(f"  {self._lane(event.lane)}tool {call.name}: {done}, {call.seconds:.1f} s")
            case ProposalFailed():
                self.line(f"  {self._lane(event.lane)}{first_line(event.error, 100)}")
            case TurnEnded():
                self.turn_ended(event)
            case Finished():
                self.close()
            case _:
                super().emit(event)

    def line(self, text: str) -> None:
        """Print one line unchanged."""
        self.print(escape(text))

    def run_started(self, run: RunStarted) -> None:
        """What is optimized, and where."""
        self._run = run
        self.line(f"optimizing {run.problem} ({run.backend}, workload {run.workload}) on {run.device}")

    def start_measured(self, start: StartMeasured) -> None:
        """The roofline."""
        profile, run = start.profile, self._run
        against = "" if run.against == "the reference" else f" against {run.against}"
        target = "" if run.target_speedup is None else f"; target {run.target_speedup:g}x{against}"
        self.line(
            f"roofline floor {profile.floor_ms:.3f} ms: {profile.flops / 1e6:.0f} MFLOP, "
            f"{profile.min_bytes / 1e6:.1f} MB{target}"
        )

    def analysed(self, analysed: Analysed) -> None:
        """The bottleneck and its evidence."""
        number, _, index = analysed.lane.partition(".")
        which = f", candidate {int(index) + 1}" if self._run.beam > 1 else ""
        self.line(f"turn {self._turn(number)}{which}: bottleneck {analysed.category}, {analysed.performance}")
        for evidence in analysed.evidence:
            self.line(f"  {evidence}")

    def proposed(self, proposed: Proposed) -> None:
        """The strategy with its rationale, or the tried changes."""
        lane, (first, *_) = self._lane(proposed.lane), proposed.proposals
        if proposed.quick:
            self.line(f"  {lane}trying {', '.join(proposal.strategy for proposal in proposed.proposals)}")
        else:
            self.line(f"  {lane}{first.strategy}{f': {first.rationale}' if first.rationale else ''}")

    def rules_skipped(self, skipped: RulesSkipped) -> None:
        """Show failed rules; with `--verbose` also rules that do not apply, with reasons."""
        lane = self._lane(skipped.lane)
        for rule in skipped.rules:
            if rule.failed:
                self.line(f"  {lane}rule failed: {rule.rule}: {rule.reason} (a bug: please report it)")
            elif self.display.verbose:
                self.line(f"  {lane}rule {rule.rule} does not fit: {rule.reason}")

    def trial(self, trial: TrialDone) -> None:
        """One config and its time."""
        evaluation = trial.evaluation
        latency, speedup = trial_metrics(evaluation)
        remark = f" {first_line(evaluation.message, 100)}" if not evaluation.ok else ""
        if evaluation.contention is not None:
            remark += f" ({disturbance(evaluation.contention)})"
        config = describe_config(evaluation.config)
        self.line(f"  [{trial.origin}] {config}: {evaluation.status} {latency} {speedup}".rstrip() + remark)
        if self.display.verbose and (sanitized := sanitizer_line(evaluation, all_of_it=True)) is not None:
            self.line(f"  {sanitized}")
        if self.display.verbose and not evaluation.ok:
            self.line(evaluation.message)
            self.line(evaluation.log)

    def turn_ended(self, turn: TurnEnded) -> None:
        """Show gain and cost of the turn, and the gain of each change of a batch."""
        lane = self._lane(turn.lane)
        if turn.gains:
            self.line(f"  {lane}tried: {', '.join(f'{name} {gain_text(gain)}' for name, gain in turn.gains)}")
        speedup = turn.best.speedup if turn.best is not None else None
        gain = f"the fastest so far: {speedup} against the reference" if speedup else "no improvement"
        cost = f" ({turn.cost['tokens']} tokens, ${turn.cost['dollars']:.4f})" if turn.cost else ""
        self.line(f"  {lane}{gain}{cost}")
        if self.display.verbose and turn.best is not None and turn.after is not None:
            from ..agent.turn import diff  # with it comes the agent

            self.line(diff(turn.before.source, turn.after.source))

    def close(self) -> None:
        """The run ended, in whatever way: restore the terminal."""

    def _turn(self, number: str) -> str:
        return f"{number}/{self._run.max_iterations}" if self._run.max_iterations else number

    def _lane(self, lane: str) -> str:
        return f"({lane}) " if self._run.beam > 1 else ""


class RunTable(RunLines):
    """A table per turn that grows above a progress bar. Parallel lanes and models are shown in lines."""

    _live: Live | None = None
    _analysed: Analysed | None = None
    _explained = False
    _best_ms: float | None = None
    _lines = False
    _first = "config"

    def run_started(self, run: RunStarted) -> None:
        """What is optimized, and where."""
        super().run_started(run)
        self._lines = run.by_model or run.beam > 1

    def start_measured(self, start: StartMeasured) -> None:
        """The roofline."""
        super().start_measured(start)
        self._best_ms = start.evaluation.latency_ms

    def analysed(self, analysed: Analysed) -> None:
        """The bottleneck, which the turn's heading shows."""
        self._analysed, self._explained = analysed, False
        if self._lines:
            super().analysed(analysed)

    def proposed(self, proposed: Proposed) -> None:
        """Show a heading and an empty table, with a row per change if several are tried."""
        count = len(proposed.proposals)
        if self._lines:
            super().proposed(proposed)
        elif proposed.quick:
            what = f"{count} change{'s' if count > 1 else ''}"
            self._begin_table(proposed, what, "tried side by side", "change")
        else:
            self._begin_table(proposed, proposed.proposals[0].strategy, proposed.proposals[0].rationale, "config")

    def _begin_table(self, proposed: Proposed, what: str, why: str, first: str) -> None:
        self.close()  # a turn may have several
        assert self._analysed is not None
        title = f"turn {self._turn(proposed.lane.partition('.')[0])} · {self._analysed.category} · {what}"
        self.console.rule(escape(title), align="left")
        if not self._explained:
            self.console.print(f"[dim]{escape('; '.join(self._analysed.evidence))}[/]")
            self._explained = True
        self.console.print(escape(why))
        self._first = first
        self._table = table(first, "status", ">latency", ">speedup", "", plain=True)
        columns = (TextColumn("trial"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns)
        self._task = self._bar.add_task("", total=proposed.trials)
        self._live = Live(Group(self._table, self._bar), console=self.console, refresh_per_second=8)
        self._live.start()

    def trial(self, trial: TrialDone) -> None:
        """Add a row to the table, with the best so far."""
        if self._live is None:
            super().trial(trial)
            return
        evaluation = trial.evaluation
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
            name = trial.origin.partition(": ")[2]
            what = f"{name} ({what})" if evaluation.config else name
        self._table.add_row(escape(what), status, latency, speedup, remark)
        self._bar.advance(self._task)

    def turn_ended(self, turn: TurnEnded) -> None:
        """End the table, and show the gain of the turn."""
        self.close()
        if turn.best is not None:
            self._best_ms = turn.best.latency_ms
        super().turn_ended(turn)

    def close(self) -> None:
        """Leave the terminal as it was, whatever ended the run."""
        if self._live is not None:
            self._live.update(self._table)
            self._live.stop()
            self._live = None


def disturbance(cores: float) -> str:
    """Return 'other processes used 0.8 cores', or that the times vary if no other process ran."""
    return f"other processes used {cores:.1f} cores" if cores >= 0.05 else "times vary"


def gain_text(gain: float | None) -> str:
    """'1.32x', or 'failed'."""
    return f"{gain:.2f}x" if gain else "failed"


def trial_metrics(evaluation: Evaluation) -> tuple[str, str]:
    """Return latency and speedup as short texts, empty if unknown."""
    speedup = evaluation.speedup
    latency = f"{evaluation.latency_ms:.3f} ms" if evaluation.latency_ms else ""
    return latency, f"{speedup.ratio:.3f}x" if speedup else ""
