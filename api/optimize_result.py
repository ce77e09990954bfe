"""A run of `optimize` that ended, and the files that it left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..agent.loop import Outcome
from ..core import Budget, FinishedRecord
from ..core.baselines import BesideCompile, beside_compile
from .jobs import Job


@dataclass(frozen=True)
class OptimizeResult:
    """A verified result, or the start kernel where nothing was faster; how it was reached, and what it cost."""

    job: Job
    outcome: Outcome
    kernel: Path | None
    """The file of the fastest verified kernel; None where nothing was faster, or it was not to be saved."""
    history: Path
    journal: Path
    target: float
    model: str
    """The proposer: a model, or 'rules'."""
    spent: Budget
    """Tokens and dollars of all exchanges with models."""
    solution: Path | None = None
    """The same kernel as a Solution, in the dataset of a recorded workload."""
    patch: Path | None = None
    """The result as a change of the user's own files; None where none was asked for, or nothing became faster."""

    @property
    def verified(self) -> bool:
        """Whether the best kernel was correct and timed again in a fresh process."""
        return self.outcome.verified

    @property
    def speedup(self) -> float | None:
        """Of the best kernel over the reference; None when it was not timed."""
        return self.outcome.best.speedup.ratio if self.outcome.best.speedup else None

    @property
    def faster(self) -> bool:
        """Whether something was found that is faster than what was there, beyond doubt.

        Where the run made the first kernel itself, that is already if it is faster than the target's baseline.
        """
        return self.outcome.faster or self.patch is not None or faster_first(self.job, self.outcome)

    @property
    def reached(self) -> bool:
        """Whether the verified speedup over the target's baseline is at least the target."""
        return self.outcome.reached(self.target, self.job.against)

    @property
    def beside_compile(self) -> BesideCompile | None:
        """How the verified kernel stands to `torch.compile`; None where that was not timed beside it."""
        if not (self.job.beside_compile and self.outcome.verified):
            return None
        return beside_compile(self.outcome.best.metrics().interval_compile)

    def record(self) -> FinishedRecord:
        """How the run ended, as its journal holds it."""
        outcome, gain = self.outcome, self.outcome.gain
        return FinishedRecord(
            problem=self.job.problem.id,
            device=outcome.best.environment.get("device", self.job.device),
            backend=self.job.backend,
            workload=self.job.problem.workload,
            target_speedup=self.target,
            target_reached=self.reached,
            against=self.job.against,
            precision=self.job.precision.value,
            verified=outcome.verified,
            beside_compile=self.beside_compile,
            start=outcome.start.metrics(),
            best=outcome.best.metrics(),
            faster=self.faster,
            gain=gain.ratio if gain else None,
            gain_interval=(gain.low, gain.high) if gain else None,
            model=self.model,
            iterations=max((turn.number for turn in outcome.turns), default=0),
            turns=len(outcome.turns),
            tokens=self.spent.tokens or 0,
            dollars=round(self.spent.dollars or 0.0, 6),
            stopped=outcome.stopped,
            cut_short=outcome.cut_short,
            kernel=str(self.kernel) if self.kernel else None,
            solution=str(self.solution) if self.solution else None,
            history=str(self.history),
            patch=str(self.patch) if self.patch else None,
        )

    def summary(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it; times in milliseconds."""
        return self.record().summary()


def faster_first(job: Job, outcome: Outcome) -> bool:
    """Return whether the best is a first kernel that the run made itself, and faster than the target's baseline."""
    over = outcome.best.speedup_against(job.against) if job.first and outcome.verified else None
    return over is not None and over.low > 1.0
