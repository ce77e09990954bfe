"""What `tune` and `optimize` return: figures, and where the run's files are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ...core import Value
from .reply import Reply, disturbed

if TYPE_CHECKING:
    from ...agent.turn import Turn
    from ...api.optimize_result import OptimizeResult
    from ...commands.tune.kernel import Result as TuneResult

Shown: TypeAlias = Callable[[Path], str]
"""A path inside the server's folder, relative to it."""


class RunReply(Reply):
    """What both kinds of runs have."""

    run: str
    """The run's id: its resources are kernelwright://runs/<run>/report, .../history, .../kernel and .../result."""
    kernel: str
    """As it was named in the call."""
    problem: str
    """The id of the problem that it solves."""
    workload: str
    """The sizes at which it was measured."""
    device: str
    """The name of the processor or GPU."""
    start_ms: float | None
    """Milliseconds of the kernel as it was; null where it was not timed."""
    best_ms: float | None
    """Milliseconds of the fastest, timed anew beside it; null where nothing was correct."""
    times_as_fast: float | None
    """start_ms / best_ms, both of one run; null where no run timed both."""
    speedup: float | None
    """Of the fastest over the reference, eager PyTorch in fp32."""
    interval: tuple[float, float] | None
    """In which that speedup lies, from the 95 % intervals of both medians."""
    saved_kernel: str | None
    """The file of the faster kernel, relative to the server's folder; null where nothing is faster beyond noise."""
    journal: str
    """The file with each trial, relative to the server's folder."""
    stopped: str
    """Why it ended."""
    warnings: list[str]
    """What makes the figures doubtful."""
    next: str
    """What to do next."""


class Tuned(RunReply):
    """The fastest values of a kernel's constants."""

    configs: int | None
    """In the search space; null where they are too many to count."""
    trials: int
    """Configs that were evaluated."""
    failed: int
    """Of these, not correct."""
    statuses: dict[str, int]
    """How many trials ended how."""
    best_config: dict[str, Value] | None
    """Of the fastest; null where nothing was correct."""
    faster: bool
    """Whether it beats the kernel's own constants beyond noise."""

    @classmethod
    def of(cls, run: str, kernel: str, result: TuneResult, shown: Shown) -> Tuned:
        """The search in `api`'s record."""
        best, start, space = result.found.best, result.found.start, result.space_searched
        metrics = best.metrics() if best else None
        saved = result.kernel_path
        return cls(
            run=run,
            kernel=kernel,
            problem=result.job.problem.id,
            workload=result.job.problem.workload,
            device=result.device,
            start_ms=start.latency_ms if start else None,
            best_ms=metrics.latency_ms if metrics else None,
            times_as_fast=result.gain,
            speedup=metrics.speedup if metrics else None,
            interval=metrics.interval if metrics else None,
            saved_kernel=shown(saved) if saved else None,
            journal=shown(result.folder / "journal.jsonl"),
            stopped=result.found.stopped,
            warnings=[*disturbed(result.contention), *filter(None, [result.unproven])],
            next=_after_tune(result),
            configs=space["size"],
            trials=result.trials,
            failed=result.failed,
            statuses=result.statuses,
            best_config=best.config if best else None,
            faster=result.faster,
        )


def _after_tune(result: TuneResult) -> str:
    if result.found.best is None:
        return "no config was correct: evaluate the kernel as it stands first"
    if result.kernel_path is not None:
        return "take over saved_kernel, or write best_config into the constants, and profile again"
    return "keep the constants: none is faster beyond noise; profile for another bottleneck"


class TurnLine(Reply):
    """One turn of a run."""

    number: int
    bottleneck: str
    """That was found: memory, compute, parallelism or algorithm."""
    strategy: str
    """What was changed."""
    improved: bool
    """Whether it became the best of the run."""
    speedup: float | None
    """Of its fastest kernel over the reference, timed beside it; null where nothing was correct."""

    @classmethod
    def of(cls, turn: Turn) -> TurnLine:
        """A turn of the loop."""
        record = turn.record()
        return cls(
            number=turn.number,
            bottleneck=record.category,
            strategy=record.strategy,
            improved=record.improved,
            speedup=record.metrics.speedup if record.metrics else None,
        )


class Optimized(RunReply):
    """A kernel after several turns of rewriting by rules, and searching."""

    verified: bool
    """Whether the fastest was correct and timed again in a fresh process."""
    faster: bool
    """Whether something was found that is faster than what was there, beyond noise."""
    target_speedup: float
    target_reached: bool
    turns: list[TurnLine]

    @classmethod
    def of(cls, run: str, kernel: str, result: OptimizeResult, shown: Shown) -> Optimized:
        """The run in `api`'s record."""
        outcome = result.outcome
        best, start = outcome.best.metrics(), outcome.start.metrics()
        gain = outcome.gain
        return cls(
            run=run,
            kernel=kernel,
            problem=result.job.problem.id,
            workload=result.job.problem.workload,
            device=outcome.best.environment.get("device", result.job.label),
            start_ms=start.latency_ms,
            best_ms=best.latency_ms,
            times_as_fast=gain.ratio if gain else None,
            speedup=best.speedup,
            interval=best.interval,
            saved_kernel=shown(result.kernel) if result.kernel else None,
            journal=shown(result.journal),
            stopped=outcome.stopped,
            warnings=disturbed(best.contention),
            next=_after_optimize(result),
            verified=result.verified,
            faster=result.faster,
            target_speedup=result.target,
            target_reached=result.reached,
            turns=[TurnLine.of(turn) for turn in outcome.turns],
        )


def _after_optimize(result: OptimizeResult) -> str:
    if not result.verified:
        return "nothing was verified: evaluate the kernel as it stands first"
    if not result.faster:
        return "no rule made it faster: profile it for what to change by hand"
    return "take over saved_kernel; profile it for what is left, and stop at the roofline"


def resource_links(run: str) -> Mapping[str, str]:
    """The addresses of a run's resources, by kind."""
    return {kind: f"kernelwright://runs/{run}/{kind}" for kind in ("report", "history", "kernel", "result")}
