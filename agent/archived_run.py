"""Derives the archive's record of a run from its journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..core import (
    BOTTLENECKS,
    ArchivedRun,
    Experience,
    FinishedRecord,
    Gain,
    Improvement,
    KernelRecord,
    ProfileRecord,
    PythonKernel,
    Record,
    RunRecord,
    Status,
    Trial,
    TurnRecord,
)
from ..core.journal import of
from ..core.text import digest_of, first_line
from ..core.turn_record import AttemptRecord
from .turn import NO_KERNEL, SIGNIFICANT, latest_turns
from .workbench import FINAL, START_BESIDE

CAUSE = 300
"""Characters of a failure's cause."""


def run_id(run: RunRecord, first: Trial) -> str:
    """Return the id of a run, sixteen hexadecimal digits, independent of the journal's path."""
    return digest_of(f"{run.model_dump_json()}{first.at}{first.seconds}")


def archived(records: Sequence[Record]) -> ArchivedRun | None:
    """Return the record of a run, as far as its journal goes; None before its first turn.

    Raises `KernelError` and `KeyError` for a journal that is none of a run's.
    """
    run, first = next(of(records, RunRecord), None), next(of(records, Trial), None)
    turns = latest_turns(records)
    if run is None or first is None or not turns:
        return None
    profile = next((item.profile for item in of(reversed(records), ProfileRecord)), None)
    environment = {name: str(value) for name, value in first.evaluation.environment.items()}
    return ArchivedRun(
        run=run_id(run, first),
        at=first.at,
        problem=run.problem,
        reference=run.reference,
        sizes=run.sizes,
        device=environment.pop("device", run.device),
        backend=run.backend,
        work=turns[0].analysis.work,
        operators=profile.operators if profile else (),
        model=run.model,
        versions=environment,
        tried=tuple(experience for turn in turns for experience in _experiences(turn)),
        improvement=_improvement(records, turns),
    )


def _experiences(turn: TurnRecord) -> Iterator[Experience]:
    """Yield each technique that the turn tried, once, at its best."""
    tried: dict[str, list[AttemptRecord]] = {}
    for attempt in turn.attempts:
        if attempt.strategy != NO_KERNEL:
            tried.setdefault(attempt.strategy, []).append(attempt)
    for technique, attempts in tried.items():
        # A quick trial finds neither the time of a tuned kernel nor why one is refused: a full evaluation decides.
        full = [item for item in attempts if item.gain is None]
        gains = [_gain(turn, item) for item in full or attempts]
        known = [gain for gain in gains if gain is not None]
        if known:
            failed = next((item.error for item in reversed(attempts) if item.error), "")
            best = max(known)
            yield Experience(technique=technique, gain=best, cause="" if best else first_line(failed, CAUSE))


def _gain(turn: TurnRecord, attempt: AttemptRecord) -> float | None:
    """Return an attempt's speedup over the turn's kernel, 0.0 for a failure; None if it was not measured."""
    if attempt.error.startswith(f"{Status.NOT_MEASURED}:"):
        return None
    if attempt.gain is not None:
        return attempt.gain
    if attempt.error:
        return 0.0
    if attempt.latency_ms and turn.analysis.latency_ms:
        return turn.analysis.latency_ms / attempt.latency_ms
    return None


def _improvement(records: Sequence[Record], turns: Sequence[TurnRecord]) -> Improvement | None:
    finished = next(of(reversed(records), FinishedRecord), None)
    if finished is None or not finished.verified:
        return None
    trials = list(of(records, Trial))
    # Several kernels may have had their final check; the reported one is recognized by its time.
    finals = [trial.evaluation for trial in trials if trial.origin == FINAL]
    final = next((x for x in reversed(finals) if x.latency_ms and x.latency_ms == finished.best.latency_ms), None)
    beside = [trial.evaluation for trial in trials if trial.origin == START_BESIDE]
    start = next((x for x in reversed(beside) if final is not None and x.reference == final.reference), None)
    if start is None or final is None:
        return None
    gain = Gain.between(start, final, finished.device)
    if gain is None or gain.speedup < SIGNIFICANT:
        return None
    sources = {record.digest: record.source for record in of(records, KernelRecord)}
    better = [turn for turn in turns if turn.improved]
    return Improvement(
        before=PythonKernel.parse(sources[start.kernel_digest]).source,
        after=PythonKernel.parse(sources[final.kernel_digest]).bind(final.config).source,
        gain=gain,
        category=_category(better),
        techniques=tuple(dict.fromkeys(turn.strategy for turn in better)),
        story=" ".join(dict.fromkeys(_sentence(turn.rationale) for turn in better if turn.rationale)),
    )


def _sentence(text: str) -> str:
    return text if text.rstrip().endswith((".", "!", "?")) else f"{text.rstrip()}."


def _category(turns: Sequence[TurnRecord]) -> str:
    """Return the bottleneck of the turn that gained most."""
    best = max(turns, key=lambda turn: turn.improvement, default=None)
    category = best.proposal_category if best else ""
    return category if category in BOTTLENECKS else BOTTLENECKS[0]
