"""A recorded run, read back: turns, code, figures, tools, exchanges with models, costs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import Evaluation, JournalError, KernelwrightError, Profile
from ...core.journal import Record
from ...core.trial import read_trials
from ..turn import summary
from .files import RunFiles, parsed, records_of, run_files
from .records import Conversations, Exchange, Metrics, TrialRecord, TurnRecord, metrics_of, trial_of, turn_of
from .table import COLUMNS, rows

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Finished:
    """How a run ended."""

    target: float
    """The speedup that was wanted."""
    target_reached: bool
    verified: bool
    """Whether the best kernel was found right and timed again in a fresh process."""
    stopped: str
    """Why the loop ended, in words."""
    workload: str
    kernel: str | None
    """The file of the best kernel, as the run named it."""


@dataclass(frozen=True)
class History:
    """All that a run left. Times are in milliseconds where the name says so, else in seconds."""

    files: RunFiles
    problem: str
    backend: str
    device: str
    model: str
    """Who proposed: a model, or 'rules'."""
    sizes: Mapping[str, Any]
    """Those of the problem's workload, by name."""
    environment: Mapping[str, str]
    """The device and the versions under which the start was measured."""
    profile: Profile | None
    """What the problem asks of the device; None when the run ended before it was measured."""
    start: Metrics | None
    best: Metrics | None
    """At the final check; in a run that did not finish, the fastest right kernel so far."""
    finished: Finished | None
    """None while the run goes on, and when it was cut off."""
    turns: tuple[TurnRecord, ...]
    trials: tuple[TrialRecord, ...]
    """In the order in which they ended, those of searches included."""
    exchanges: tuple[Exchange, ...]

    @property
    def name(self) -> str:
        """Of the problem, as the journal's file is named: '36_RMSNorm_'; its id where that says nothing."""
        stem = self.files.journal.stem
        if stem.startswith("journal_") and f"_{self.backend}" in stem:
            return stem.removeprefix("journal_").rpartition(f"_{self.backend}")[0]
        return self.problem

    @property
    def tokens(self) -> int:
        """Of all exchanges, those before the first turn too."""
        return sum(each.tokens for each in self.exchanges) or sum(turn.tokens for turn in self.turns)

    @property
    def dollars(self) -> float:
        """Cost of all exchanges, those before the first turn too."""
        return sum(each.dollars for each in self.exchanges) or sum(turn.dollars for turn in self.turns)

    @property
    def seconds(self) -> float | None:
        """From the begin of the first trial to the end of the last one; None in old journals."""
        return self.trials[-1].elapsed_s if self.trials else None

    @property
    def times_faster(self) -> float | None:
        """How many times as fast as the start the best kernel is."""
        if self.start is None or self.best is None or not self.start.latency_ms or not self.best.latency_ms:
            return None
        return self.start.latency_ms / self.best.latency_ms

    def trials_of(self, turn: TurnRecord) -> tuple[TrialRecord, ...]:
        """What a turn measured, without the trials of searches, whose journals name no turn."""
        lane = f".{turn.lane}" if turn.lane else ""
        return tuple(trial for trial in self.trials if trial.origin.startswith(f"turn {turn.number}{lane}: "))

    def to_dataframe(self) -> pd.DataFrame:
        """One row per turn and lane. `KernelwrightError` when pandas is not installed."""
        try:
            import pandas as pd
        except ImportError:
            raise KernelwrightError("a DataFrame needs pandas: pip install 'kernelwright[notebooks]'") from None
        return pd.DataFrame(rows(self.turns, self.start), columns=COLUMNS)


def load_history(path: Path | str) -> History:
    """Read the run at `path`: a journal, or a results folder that holds one run.

    A run that was cut off loads, too. `JournalError` when there is no run, when a folder holds several, and when a
    journal or transcript is corrupt.
    """
    files = run_files(Path(path))
    records = records_of(files.journal)
    run = next((record for record in records if record.get("kind") == "run"), None)
    if run is None:
        raise JournalError(f"{files.journal} is no journal of 'optimize'; give the one that a run left")
    exchanges = _exchanges(files.transcript) if files.transcript else ()
    # A turn that was cut off is written again when it is whole, and lanes are written as they end.
    turns: dict[tuple[int, int], TurnRecord] = {}
    profile, finished, ended = None, None, None
    for line, record in enumerate(records, start=1):
        kind = record.get("kind")
        if kind == "turn":
            turn = parsed(files.journal, line, record, "turn", lambda one: turn_of(one, exchanges))
            turns[turn.number, turn.lane] = turn
        elif kind == "profile":
            profile = parsed(files.journal, line, record, "profile", lambda one: Profile.model_validate(one["profile"]))
        elif kind == "finished":
            finished = parsed(files.journal, line, record, "end of a run", _finished)
            ended = record
        if kind in ("turn", "trial"):
            # A run that was resumed after its end, and has not come to its end again.
            finished = ended = None
    evaluations = [trial.evaluation for trial in read_trials(records, files.journal)]
    first = evaluations[0] if evaluations else None
    start, best = _so_far(evaluations)
    if ended is not None:
        start, best = metrics_of(ended["start"]), metrics_of(ended["best"])
    return History(
        files=files,
        problem=str(run.get("problem", "")),
        backend=str(run.get("backend", "")),
        device=first.environment.get("device", "") if first else str(run.get("device", "")),
        model=str((ended or run).get("model", run.get("model", "rules"))),
        sizes=_sizes(run.get("sizes")),
        environment=first.environment if first else {},
        profile=profile,
        start=start,
        best=best,
        finished=finished,
        turns=tuple(turns[place] for place in sorted(turns)),
        trials=_trials(records, files),
        exchanges=exchanges,
    )


def _exchanges(path: Path) -> tuple[Exchange, ...]:
    conversations = Conversations()
    return tuple(
        parsed(path, line, record, "exchange", conversations.read)
        for line, record in enumerate(records_of(path), start=1)
        if record.get("kind") == "exchange"
    )


def _finished(record: Record) -> Finished:
    for side in ("start", "best"):
        metrics_of(record[side])
    return Finished(
        target=float(record["target_speedup"]),
        target_reached=bool(record["target_reached"]),
        verified=bool(record["verified"]),
        stopped=str(record["stopped"]),
        workload=str(record.get("workload", "")),
        kernel=record.get("kernel"),
    )


def _sizes(text: object) -> dict[str, Any]:
    """Pairs of name and size, which the journal holds as Python writes them."""
    try:
        return dict(ast.literal_eval(str(text)))
    except (SyntaxError, TypeError, ValueError):
        return {}


def _so_far(evaluations: list[Evaluation]) -> tuple[Metrics | None, Metrics | None]:
    """The start and the fastest, undisturbed if there is such, as far as a run came."""
    every = [metrics_of(summary(evaluation)) for evaluation in evaluations]
    timed = [metrics for metrics in every if metrics is not None and metrics.latency_ms is not None]
    chosen = [metrics for metrics in timed if metrics.trusted] or timed
    best = min(chosen, key=lambda metrics: metrics.latency_ms or 0.0, default=None)
    return (every[0] if every else None), best


def _trials(records: Iterable[Record], files: RunFiles) -> tuple[TrialRecord, ...]:
    found = [trial_of(trial, search=False) for trial in read_trials(records, files.journal)]
    for path in files.searches:
        found += [trial_of(trial, search=True) for trial in read_trials(records_of(path), path)]
    ends = [_time(trial.at) for trial in found]
    timed = [(end, place) for place, end in enumerate(ends) if end is not None]
    if not found or len(timed) < len(found):
        return tuple(found)
    # What ended in the same second stays in the order of its journal.
    timed.sort()
    (first, place), *_ = timed
    began = first - timedelta(seconds=found[place].seconds)
    return tuple(replace(found[place], elapsed_s=(end - began).total_seconds()) for end, place in timed)


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
