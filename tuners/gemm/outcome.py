"""From the evaluations of a search to the result of a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core import Config, Evaluation, Kernel, Problem
from ...core.evidence import with_evidence
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


def kernel_of(problem: Problem, kernel: Kernel, found: Found, analytic: Config) -> str | None:
    """Return the text of the chosen kernel with its measurements in the header; None if nothing was compared.

    `kernel` has the constants of the analytic choice.
    """
    winner, start = winner_of(found, analytic), found.start
    if winner is None or not winner.ok or winner.speedup is None:
        return None
    measured = start if start is not None and start.measurement else winner
    return with_evidence(kernel.bind(winner.config).source, problem, winner, measured)


def winner_of(found: Found, analytic: Config) -> Evaluation | None:
    """Return the evaluation of the chosen config; an equally fast analytic choice is kept. None if none is correct."""
    best, start = found.best, found.start
    analytic_ms = start.latency_ms if start else None
    own = best is None or Config(best.config) == analytic or (analytic_ms and analytic_ms <= (best.latency_ms or 0.0))
    return start if own and start and start.latency_ms else best


def result_of(shape: Shape, found: Found, analytic: Config) -> ShapeResult:
    """Return the result of a search whose unchanged kernel is the analytic choice."""
    start, winner = found.start, winner_of(found, analytic)
    common: dict[str, Any] = {"trials": found.progress.trials, "times": times_of(found.evaluations)}
    analytic_ms = start.latency_ms if start else None
    if winner is None:
        first = next((item for item in (*found.finals, *found.evaluations) if not item.ok), None)
        why = f"none of {common['trials']} configs is correct" + (
            f", first {first.status}: {first_message(first)}" if first else ""
        )
        return ShapeResult(shape, error=why, **common)
    own = winner is start or Config(winner.config) == analytic
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
