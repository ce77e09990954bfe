"""From the evaluations of a search to the result of a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core import Config, Evaluation
from ..search import Found
from .result import KEPT, MEASURED, ShapeResult
from .shapes import Shape


def times_of(evaluations: Sequence[Evaluation]) -> dict[Config, float]:
    """Return the milliseconds of the configs that were timed."""
    return {
        Config(evaluation.config): evaluation.latency_ms
        for evaluation in evaluations
        if evaluation.latency_ms is not None
    }


def result_of(shape: Shape, found: Found, analytic: Config) -> ShapeResult:
    """Return the result of a search whose unchanged kernel is the analytic choice."""
    best, start = found.best, found.start
    common: dict[str, Any] = {"trials": found.progress.trials, "times": times_of(found.evaluations)}
    analytic_ms = start.latency_ms if start else None
    if best is None and analytic_ms is None:
        first = next((item for item in (*found.finals, *found.evaluations) if not item.ok), None)
        why = f"none of {common['trials']} configs is correct" + (
            f", first {first.status}: {first_message(first)}" if first else ""
        )
        return ShapeResult(shape, error=why, **common)
    own = best is None or Config(best.config) == analytic or (analytic_ms and analytic_ms <= (best.latency_ms or 0.0))
    winner = start if own and start and start.latency_ms else best
    assert winner is not None
    if not winner.ok:
        return ShapeResult(shape, error=f"{winner.status}: {first_message(winner)}", **common)
    return ShapeResult(
        shape,
        Config(winner.config or analytic),
        chosen=KEPT if own else MEASURED,
        time_ms=winner.latency_ms,
        analytic_ms=winner.latency_ms if own else analytic_ms,
        reference_ms=winner.reference.median_ms if winner.reference else None,
        max_error=largest_error(winner),
        environment=winner.environment,
        **common,
    )


def largest_error(evaluation: Evaluation) -> float | None:
    """Return the largest relative error against the reference; None if nothing was compared."""
    return evaluation.correctness.max_rel_error if evaluation.correctness else None


def first_message(evaluation: Evaluation) -> str:
    """Return the first line of an evaluation's message."""
    return next(iter(evaluation.message.splitlines()), "")
