"""One turn of the loop: what was proposed, what it was worth."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..core import Evaluation, Kernel, Problem, Proposal
from .analysis import Analysis


@dataclass(frozen=True)
class Turn:
    """A finished turn."""

    number: int
    analysis: Analysis
    proposal: Proposal
    before: Kernel
    """The best kernel when the turn began, its parameters bound."""
    evaluations: tuple[Evaluation, ...]
    best: Evaluation | None
    """The fastest right one of this turn, or None."""
    improved: bool
    """Whether it became the best of the run."""
    gain: float
    """How many times faster than the best before; 1.0 when nothing improved."""
    error: str = ""
    """The first failure, for the next turn to learn from."""

    def record(self) -> dict[str, Any]:
        """The turn as the history shows it."""
        best = self.best
        return {
            "iteration": self.number,
            "bottleneck_analysis": self.analysis.record(),
            "suggestions": list(self.analysis.suggestions),
            "strategy": self.proposal.strategy,
            "category": self.proposal.category,
            "rationale": self.proposal.rationale,
            "code_changes": diff(self.before.source, self.proposal.kernel.source),
            "kernel": self.proposal.kernel.source,
            "improved": self.improved,
            "improvement": self.gain - 1.0,
            "error": self.error,
            "evaluation_results": [summary(evaluation) for evaluation in self.evaluations],
            "best": summary(best) if best else None,
        }


def summary(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation's figures without its samples."""
    speedup = evaluation.speedup
    correctness = evaluation.correctness
    return {
        "status": evaluation.status.value,
        "config": dict(evaluation.config),
        "latency_ms": evaluation.latency_ms,
        "reference_ms": evaluation.reference.median_ms if evaluation.reference else None,
        "speedup": speedup.ratio if speedup else None,
        "interval": [speedup.low, speedup.high] if speedup else None,
        "max_abs_error": correctness.max_abs_error if correctness else None,
        "compile_s": evaluation.compile_s,
        "contention": evaluation.contention,
        "message": evaluation.message,
    }


def diff(before: str, after: str) -> str:
    """The change between two sources, as a unified diff."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", n=2, lineterm="")
    return "\n".join(lines)


class Proposer(Protocol):
    """Decides what to try next."""

    def propose(self, problem: Problem, kernel: Kernel, analysis: Analysis, turns: Sequence[Turn]) -> Proposal | None:
        """A change of the best kernel, in the light of the turns so far; None when nothing is left to try."""
        ...
