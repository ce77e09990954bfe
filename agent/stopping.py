"""When a run stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ..core import Budget, Evaluation, Profile, Status
from ..core.baselines import STRICT
from ..core.workload_rows import loses
from .turn import Turn

MAX_STALE_ROUNDS = 3
"""Rounds in a row without the required improvement before the loop stops."""
TARGET = 1.5
"""Target speedup for a given kernel."""
ROOFLINE = 0.95
"""A kernel this close to the roofline's floor has nothing left to gain."""
EVEN = 0.98
"""A kernel with less than this share of the reference's speed is slower than it, not as fast within noise."""
BEATEN = 1.05
"""A floor that a kernel undercuts by more is wrong: data stayed in a cache, or there is a faster way to compute."""


@dataclass(frozen=True)
class StoppingCriteria:
    """The target, and the limits on reaching it."""

    target_speedup: float | None = TARGET
    """None to end only at a limit, at the roofline's floor, or when nothing is left to try."""
    against: str = STRICT
    """The baseline of the target, a name of `core.baselines`."""
    max_iterations: int | None = 5
    """Maximum number of turns; None to end when nothing is left to try, or at a budget."""
    min_improvement: float = 0.05
    beam: int = 1
    """Number of candidates that are kept, and of expansions per iteration."""
    repairs: int = 2
    """Further attempts at a proposal that failed."""
    budget: Budget = field(default_factory=Budget)
    start: Evaluation | None = None
    """Evaluation of the run's start, against which no workload may become slower."""

    def refusal(self, evaluation: Evaluation) -> str | None:
        """Return why a correct kernel does not count as a result, or None."""
        if (lost := loses(evaluation, self.start)) is not None:
            return lost
        return evaluation.message if evaluation.status is Status.UNPROVEN else None

    def done(self, turns: Sequence[Turn]) -> str | None:
        """Return why the turns so far are enough, or None."""
        rounds = [max(turn.gain for turn in round_) for _, round_ in groupby(turns, key=lambda turn: turn.number)]
        if self.max_iterations is not None and len(rounds) >= self.max_iterations:
            return f"{self.max_iterations} iterations done"
        recent = rounds[-MAX_STALE_ROUNDS:]
        if len(recent) == MAX_STALE_ROUNDS and all(gain < 1 + self.min_improvement for gain in recent):
            return f"{MAX_STALE_ROUNDS} turns in a row improved by less than {self.min_improvement:.0%}"
        return None


def at_floor(profile: Profile, evaluation: Evaluation) -> bool:
    """Return whether a kernel runs as fast as the roofline allows.

    Not where the reference is faster than the kernel, which shows that more is possible, or than the floor, which is
    wrong then.
    """
    latency, reference = evaluation.latency_ms, evaluation.reference
    if latency is None or (reference is not None and reference.median_ms < max(profile.floor_ms, EVEN * latency)):
        return False
    return ROOFLINE <= profile.floor_ms / latency <= BEATEN
