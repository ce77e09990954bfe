"""The turns of a run as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any

from ...core import Metrics, TurnRecord

COLUMNS = (
    "turn", "lane", "category", "strategy", "improved", "gain", "status", "latency_ms", "best_latency_ms", "speedup",
    "speedup_low", "speedup_high", "speedup_default", "contention", "attempts", "tool_calls", "tool_seconds",
    "exchanges", "tokens", "dollars", "model_seconds", "error",
)  # fmt: skip


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
    """Of the fastest correct kernel, else of the last one that was tried."""
    if turn.metrics is not None:
        return turn.metrics.status
    tried = [attempt.statuses[-1] for attempt in turn.attempts if attempt.statuses]
    return tried[-1] if tried else "no_kernel"
