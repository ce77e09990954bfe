"""Examples from this installation's own runs: the first kernel of an optimization, and the last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..core import (
    BOTTLENECKS,
    Evaluation,
    FinishedRecord,
    Gain,
    JournalError,
    KernelError,
    KernelRecord,
    PythonKernel,
    RunRecord,
    Speedup,
    Trial,
    TurnRecord,
    WorkedExample,
    read_journal,
)
from ..core.journal import of
from .code.operation import operation
from .code.syntax import parse

LEAST_GAIN = 1.1
"""Minimum speedup over its start kernel for a run to be an example."""

UNKNOWN = "unknown operation"


def run_examples(results: Path, note: Callable[[str], None] = lambda line: None) -> list[WorkedExample]:
    """Return the examples in the journals of a results folder, one per finished run whose kernel was verified and is at
    least `LEAST_GAIN` times as fast as its start kernel. `note` gets the journals that cannot be read."""
    found = []
    for path in sorted((results / "multiturn_logs").glob("journal_*.jsonl")):
        try:
            example = _example(path)
        except (JournalError, OSError) as error:
            note(f"no example from a run: {error}")
            continue
        except (KernelError, KeyError, TypeError, ValueError, RecursionError) as error:
            note(f"no example from a run: {path} is not a run's journal ({type(error).__name__}: {error})")
            continue
        if example is not None:
            found.append(example)
    return found


def _example(path: Path) -> WorkedExample | None:
    records = read_journal(path)
    run = next(of(records, RunRecord), None)
    finished = next(of(reversed(records), FinishedRecord), None)
    if run is None or finished is None or not finished.verified:
        return None
    trials = list(of(records, Trial))
    start = next((trial.evaluation for trial in trials if trial.origin == "start"), None)
    # Several kernels may have had their final check; the reported one is recognized by its speedup.
    finals = [trial.evaluation for trial in trials if trial.origin == "final"]
    final = next((x for x in reversed(finals) if x.latency_ms and x.latency_ms == finished.best.latency_ms), None)
    gain = _gain(start, final, finished.device)
    if gain is None or gain.speedup < LEAST_GAIN or start is None or final is None:
        return None
    sources = {record.digest: record.source for record in of(records, KernelRecord)}
    before = PythonKernel.parse(sources[start.kernel_digest], str(path))
    after = PythonKernel.parse(sources[final.kernel_digest], str(path)).bind(final.config)
    turns = [turn for turn in of(records, TurnRecord) if turn.improved]
    strategies = ", ".join(dict.fromkeys(turn.strategy for turn in turns))
    return WorkedExample(
        slug=f"run/{path.stem.removeprefix('journal_')}",
        title=f"{run.problem}: {strategies or 'other parameters'}",
        language=before.language,
        target=before.target,
        operation=_operation(before.source),
        category=_category(turns),
        techniques=(),
        before=before.source,
        after=after.source,
        story=" ".join(dict.fromkeys(turn.rationale for turn in turns if turn.rationale)),
        problem=run.problem,
        origin="run",
        gain=gain,
    )


def _operation(source: str) -> str:
    try:
        return operation(parse(source))
    except Exception:  # a model may write any code; the run is useful without a label
        return UNKNOWN


def _gain(start: Evaluation | None, final: Evaluation | None, device: str) -> Gain | None:
    """Return the gain; None where either was not timed, or was while other processes used the processor."""
    if start is None or final is None or start.measurement is None or final.measurement is None:
        return None
    if start.contention is not None or final.contention is not None:
        return None
    speedup = Speedup.between(start.measurement, final.measurement)
    return Gain(
        before_ms=start.measurement.median_ms,
        after_ms=final.measurement.median_ms,
        speedup=speedup.ratio,
        low=speedup.low,
        high=speedup.high,
        device=device,
        environment=dict(final.environment),
    )


def _category(turns: list[TurnRecord]) -> str:
    """Return the bottleneck of the turn that gained most."""
    best = max(turns, key=lambda turn: turn.improvement, default=None)
    category = best.proposal_category if best else ""
    return category if category in BOTTLENECKS else BOTTLENECKS[0]
