"""A recorded run, read back: turns, code, metrics, tools, exchanges with models, costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import (
    Evaluation,
    ExchangeRecord,
    FinishedRecord,
    JournalError,
    KernelwrightError,
    Metrics,
    Profile,
    ProfileRecord,
    Record,
    RunRecord,
    Trial,
    TurnRecord,
)
from ...core.baselines import against_text
from ...core.journal import of
from ...core.syntax_tree import literal
from ..turn import latest_turns
from .records import Conversations, Exchange, RecordedTrial, RunFiles, records_of, run_files

if TYPE_CHECKING:
    import pandas as pd
COLUMNS = (
    "turn", "lane", "category", "strategy", "improved", "gain", "status", "latency_ms", "best_latency_ms", "speedup",
    "speedup_low", "speedup_high", "speedup_default", "contention", "attempts", "tool_calls", "tool_seconds",
    "exchanges", "tokens", "dollars", "model_seconds", "error",
)  # fmt: skip


@dataclass(frozen=True)
class History:
    """The recorded data of a run. Times are in milliseconds if the name says so, otherwise in seconds."""

    files: RunFiles
    problem: str
    backend: str
    device: str
    model: str
    """Who proposed: a model, or 'rules'."""
    against: str
    """The baseline that its target speedup is against, a name of `core.baselines`."""
    precision: str
    """How exactly the reference computed: fp32, or default."""
    sizes: Mapping[str, Any]
    """Sizes of the problem's workload, by name."""
    environment: Mapping[str, str]
    """The device and the versions under which the start was measured."""
    profile: Profile | None
    """Profile of the problem on the device; None if the run ended before it was measured."""
    start: Metrics | None
    best: Metrics | None
    """At the final check; in a run that did not finish, the fastest correct kernel so far."""
    finished: FinishedRecord | None
    """End of the run; None while it runs, and if it was interrupted."""
    turns: tuple[TurnRecord, ...]
    trials: tuple[RecordedTrial, ...]
    """Trials in the order of their ends, including those of searches."""
    exchanges: tuple[Exchange, ...]
    search: bool = False
    """Whether it is a search of a kernel's constants that ended, which has no turns and no target."""

    @property
    def name(self) -> str:
        """Name of the problem in the journal's file name: '36_RMSNorm_'; the id if that is empty."""
        stem = self.files.journal.stem
        if stem.startswith("journal_") and f"_{self.backend}" in stem:
            return stem.removeprefix("journal_").rpartition(f"_{self.backend}")[0]
        return self.problem

    @property
    def tokens(self) -> int:
        """Tokens of all exchanges, including those before the first turn."""
        return sum(each.tokens for each in self.exchanges) or sum(turn.tokens for turn in self.turns)

    @property
    def dollars(self) -> float:
        """Cost of all exchanges, including those before the first turn."""
        return sum(each.dollars for each in self.exchanges) or sum(turn.dollars for turn in self.turns)

    @property
    def seconds(self) -> float | None:
        """From the begin of the first trial to the end of the last one; None in old journals."""
        return self.trials[-1].elapsed_s if self.trials else None

    @property
    def peak_memory_bytes(self) -> int | None:
        """Peak device memory over the evaluations of this run; None if it was not measured."""
        return max((trial.metrics.peak_memory_bytes or 0 for trial in self.trials), default=0) or None

    @property
    def times_faster(self) -> float | None:
        """Speedup of the best kernel over the start; None if they were not timed together."""
        if self.finished is not None and self.finished.gain is not None:
            return self.finished.gain
        start, best = self.start, self.best
        if start is None or best is None or not start.latency_ms or not best.latency_ms:
            return None
        # Both have the measurement of the same reference.
        together = start.reference_ms is not None and start.reference_ms == best.reference_ms
        return start.latency_ms / best.latency_ms if together else None

    @property
    def disturbed(self) -> bool:
        """Whether other processes disturbed the timing of the start or of the best kernel."""
        return any(item is not None and item.contention is not None for item in (self.start, self.best))

    @property
    def baseline(self) -> str:
        """Description of the target's baseline: 'the reference', "PyTorch's defaults"."""
        return against_text(self.against, self.precision)

    @property
    def speedup(self) -> float | None:
        """The best kernel's speedup over the target's baseline."""
        return self.best.speedup_against(self.against) if self.best else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of `speedup`."""
        return self.best.interval_against(self.against) if self.best else None

    def trials_of(self, turn: TurnRecord) -> tuple[RecordedTrial, ...]:
        """Return the trials of a turn, without those of searches, whose journals do not name turns."""
        lane = f".{turn.lane}" if turn.lane else ""
        return tuple(trial for trial in self.trials if trial.origin.startswith(f"turn {turn.number}{lane}: "))

    def exchanges_of(self, turn: TurnRecord) -> tuple[Exchange, ...]:
        """Return the exchanges of a turn with models."""
        return tuple(exchange for exchange in self.exchanges if exchange.lane == turn.name)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per turn and lane. `KernelwrightError` when pandas is not installed."""
        try:
            import pandas as pd
        except ImportError:
            raise KernelwrightError("a DataFrame needs pandas: pip install 'kernelwright[notebooks]'") from None
        return pd.DataFrame(rows(self.turns, self.start, self.exchanges_of), columns=COLUMNS)


def load_history(path: Path | str) -> History:
    """Read the run at `path`: a journal, or a results folder that holds one run.

    A run that was cut off loads, too. `JournalError` when there is no run, when a folder holds several, and when a
    journal or transcript is corrupt.
    """
    files = run_files(Path(path))
    records = records_of(files.journal)
    run = next(of(records, RunRecord), None)
    if run is None:
        raise JournalError(f"{files.journal} is not a journal of 'optimize'; give the one that a run left")
    evaluations = [trial.evaluation for trial in of(records, Trial)]
    first = evaluations[0] if evaluations else None
    compared = _compared(list(of(records, Trial)))
    start, best = _so_far(compared or evaluations)
    finished = _end(records)
    if finished is not None:
        start, best = finished.start, finished.best
    return History(
        files=files,
        problem=run.problem,
        backend=run.backend,
        device=first.environment.get("device", "") if first else run.device,
        model=(finished.model if finished else "") or run.model,
        against=run.against,
        precision=run.precision,
        sizes=_sizes(run.sizes),
        environment=first.environment if first else {},
        profile=next((record.profile for record in of(reversed(records), ProfileRecord)), None),
        start=start,
        best=best,
        finished=finished,
        # A turn that was cut off is written again when it is whole, and lanes are written as they end.
        turns=tuple(latest_turns(records)),
        trials=_trials(records, files),
        exchanges=_exchanges(files.transcript) if files.transcript else (),
        search=bool(compared),
    )


def _end(records: Sequence[Record]) -> FinishedRecord | None:
    """Return the end of the run; None if it was resumed after its end and has not ended again."""
    last = next(
        (record for record in reversed(records) if isinstance(record, FinishedRecord | TurnRecord | Trial)), None
    )
    return last if isinstance(last, FinishedRecord) else None


def _exchanges(path: Path) -> tuple[Exchange, ...]:
    conversations = Conversations()
    return tuple(conversations.read(record) for record in of(records_of(path), ExchangeRecord))


def _sizes(text: object) -> dict[str, Any]:
    """Pairs of name and size, which the journal holds as Python writes them."""
    try:
        return dict(literal(str(text)))
    except (SyntaxError, TypeError, ValueError):
        return {}


def _compared(trials: Sequence[Trial]) -> list[Evaluation]:
    """The last comparison of a finished search, the unchanged kernel first; empty for any other journal."""
    if not trials or trials[0].origin != "search":
        return []
    finals = [trial.evaluation for trial in trials if trial.origin == "final"]
    starts = [place for place, evaluation in enumerate(finals) if not evaluation.config]
    return finals[starts[-1] :] if starts else []


def _so_far(evaluations: Sequence[Evaluation]) -> tuple[Metrics | None, Metrics | None]:
    """The start and the fastest, undisturbed if there is such, as far as a run came."""
    every = [evaluation.summary() for evaluation in evaluations]
    timed = [metrics for metrics in every if metrics.latency_ms is not None]
    chosen = [metrics for metrics in timed if metrics.trusted] or timed
    best = min(chosen, key=lambda metrics: metrics.latency_ms or 0.0, default=None)
    return (every[0] if every else None), best


def _trials(records: Iterable[Record], files: RunFiles) -> tuple[RecordedTrial, ...]:
    found = [RecordedTrial.of(trial, search=False) for trial in of(records, Trial)]
    for path in files.searches:
        found += [RecordedTrial.of(trial, search=True) for trial in of(records_of(path), Trial)]
    ends = [_time(trial.at) for trial in found]
    timed = [(end, place) for place, end in enumerate(ends) if end is not None]
    if not found or len(timed) < len(found):
        return tuple(found)
    # Records of the same second stay in the order of their journal.
    timed.sort()
    (first, place), *_ = timed
    began = first - timedelta(seconds=found[place].seconds)
    return tuple(replace(found[place], elapsed_s=(end - began).total_seconds()) for end, place in timed)


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def rows(
    turns: Iterable[TurnRecord], start: Metrics | None, exchanges_of: Callable[[TurnRecord], Sized]
) -> list[dict[str, Any]]:
    """One row per turn and lane, keyed by `COLUMNS`; None where nothing was measured.

    `best_latency_ms` is the run's fastest after that turn, beginning with the start's; `exchanges_of` returns a turn's
    exchanges with models.
    """
    fastest = start.latency_ms if start else None
    found = []
    for turn in turns:
        metrics = turn.metrics
        latency = metrics.latency_ms if metrics else None
        if turn.improved and latency is not None:
            fastest = latency
        low, high = metrics.interval if metrics and metrics.interval else (None, None)
        values = (
            turn.number, turn.lane, turn.category, turn.strategy, turn.improved, turn.gain, _status(turn), latency,
            fastest, metrics.speedup if metrics else None, low, high,
            metrics.speedup_default if metrics else None, metrics.contention if metrics else None,
            len(turn.attempts), len(turn.tool_calls), sum(call.seconds for call in turn.tool_calls),
            len(exchanges_of(turn)), turn.tokens, turn.dollars, turn.model_seconds, turn.error,
        )  # fmt: skip
        found.append(dict(zip(COLUMNS, values, strict=True)))
    return found


def _status(turn: TurnRecord) -> str:
    """Return the metrics of the fastest correct kernel, otherwise of the last tried one."""
    if turn.metrics is not None:
        return turn.metrics.status
    tried = [attempt.statuses[-1] for attempt in turn.attempts if attempt.statuses]
    return tried[-1] if tried else "no_kernel"
