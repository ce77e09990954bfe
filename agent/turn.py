"""One turn of the loop: its proposal, result and cost."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..core import Config, Evaluation, Kernel, Proposal, Record, ToolCall, TurnRecord, source_lines
from ..core.events import TurnEnded
from ..core.turn_record import AttemptRecord, SkippedRule
from .bottleneck import Analysis

NO_KERNEL = "no-kernel"
"""The strategy of a turn in which no kernel was proposed."""
RULES = "rules"
"""The strategy of a turn in which several rules were tried, and none was worth a search."""
BY_TOOL = "evaluated by a tool"
"""The strategy of a turn whose fastest kernel a model's tool evaluated, and no proposal repeated."""
SIGNIFICANT = 1.01
"""A smaller improvement is noise."""


@dataclass(frozen=True)
class Attempt:
    """One proposal and its evaluations, or the reason why there is no proposal."""

    proposal: Proposal | None
    evaluations: tuple[Evaluation, ...] = ()
    error: str = ""
    """The first failure, for the next attempt to learn from."""
    gain: float | None = None
    """For a change of a batch, the speedup over the turn's kernel in the same screening, 0.0 if it failed. Such an
    evaluation is not a result."""

    @property
    def quick(self) -> bool:
        """Whether the attempt was only screened in a batch."""
        return self.gain is not None

    @property
    def correct(self) -> bool:
        """Whether the proposal was evaluated as correct."""
        return any(evaluation.ok for evaluation in self.evaluations)

    def has(self, kernel: Kernel) -> bool:
        """Return whether a kernel, its parameters bound, is the proposal's at one of the evaluated configs."""
        proposed = self.proposal.kernel if self.proposal is not None else None
        return proposed is not None and any(
            proposed.bind(Config(item.config)).digest == kernel.digest for item in self.evaluations if item.correct
        )

    def record(self) -> AttemptRecord:
        """Return the attempt without the samples of its evaluations."""
        timed = [evaluation for evaluation in self.evaluations if evaluation.latency_ms is not None]
        best = min(timed, key=lambda evaluation: evaluation.latency_ms or 0.0, default=None)
        return AttemptRecord(
            strategy=self.proposal.strategy if self.proposal else NO_KERNEL,
            kernel=self.proposal.kernel.source if self.proposal else None,
            error=self.error,
            statuses=tuple(evaluation.status for evaluation in self.evaluations),
            config=best.config if best else {},
            latency_ms=best.latency_ms if best else None,
            gain=self.gain,
        )


@dataclass(frozen=True)
class Candidate:
    """A correct kernel, its parameters bound, and its measurement."""

    kernel: Kernel
    evaluation: Evaluation

    @property
    def latency_ms(self) -> float:
        """Median time in milliseconds."""
        return self.evaluation.latency_ms or float("inf")

    def gain_over(self, other: Candidate) -> float:
        """Return about how many times as fast as another one it is: the machine may have changed between both runs.

        So their speedups over the reference are compared, each of which one run measured.
        """
        own, others = self.evaluation.speedup, other.evaluation.speedup
        return own.ratio / others.ratio if own and others else other.latency_ms / self.latency_ms

    def beats(self, other: Candidate) -> bool:
        """Return whether it is faster by more than noise."""
        return other.latency_ms > SIGNIFICANT * self.latency_ms


@dataclass(frozen=True)
class Turn:
    """A finished turn: one expansion of one candidate of the beam."""

    number: int
    lane: int
    """Index among the parallel expansions; 0 without a beam."""
    analysis: Analysis
    before: Candidate
    """The kernel to improve."""
    attempts: tuple[Attempt, ...]
    """The proposal, then its repairs."""
    found: Candidate | None
    """The fastest correct kernel of this turn, including those that a tool evaluated; one that the run knew before only
    if there is no new one; None when nothing was correct."""
    improved: bool = False
    """Whether it became the best of the run."""
    gain: float = 1.0
    """About how many times as fast as the best of the run before (`Candidate.gain_over`); 1.0 when it did not become
    the best."""
    tool_calls: tuple[ToolCall, ...] = ()
    skipped_rules: tuple[SkippedRule, ...] = ()
    """Rules that did not change the kernel, unless an earlier turn of the kernel says so."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """Exchanges with models, and their tokens, dollars and seconds; empty if rules propose."""

    @property
    def helped(self) -> bool:
        """Whether it made its candidate faster, even if it is not the best of the run."""
        return self.found is not None and self.found.beats(self.before)

    @property
    def proposal(self) -> Proposal | None:
        """The proposal of the turn's result, otherwise the last proposal. Screened changes are excluded."""
        whole = [attempt for attempt in reversed(self.attempts) if attempt.proposal is not None and not attempt.quick]
        return next((attempt.proposal for attempt in [*filter(self._won, whole), *whole]), None)

    def _won(self, attempt: Attempt) -> bool:
        """Return whether the turn's result is an attempt's."""
        if self.found is None:
            return False
        return attempt.has(self.found.kernel.bind(Config(self.found.evaluation.config)))

    @property
    def strategy(self) -> str:
        """The strategy of `proposal`, `BY_TOOL` if a tool found the result, `RULES` or `NO_KERNEL`."""
        if self.found is not None and self.attempts and not any(map(self._won, self.attempts)):
            return BY_TOOL
        if self.proposal is not None:
            return self.proposal.strategy
        return RULES if any(attempt.quick for attempt in self.attempts) else NO_KERNEL

    @property
    def tried(self) -> tuple[Attempt, ...]:
        """The changes of the turn's batch."""
        return tuple(attempt for attempt in self.attempts if attempt.quick)

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """All evaluations of the turn in order, without those of screened changes."""
        return tuple(item for attempt in self.attempts if not attempt.quick for item in attempt.evaluations)

    @property
    def error(self) -> str:
        """The first failure of the last attempt. Failures of screened changes are excluded."""
        return self.attempts[-1].error if self.attempts and not self.attempts[-1].quick else ""

    @property
    def kernel(self) -> Kernel | None:
        """The result of the turn: the fastest correct kernel, else the last one proposed."""
        if self.found is not None:
            return self.found.kernel
        return self.proposal.kernel if self.proposal else None

    def _why_nothing(self) -> str:
        names = ", ".join(item.proposal.strategy for item in self.tried if item.proposal)
        return f"tried {names}: none of them is worth a search" if names else ""

    def ended(self) -> TurnEnded:
        """Return the event of the turn's end."""
        return TurnEnded(
            number=self.number,
            lane=f"{self.number}.{self.lane}",
            strategy=self.strategy,
            category=self.analysis.category,
            gains=tuple((item.proposal.strategy, item.gain) for item in self.tried if item.proposal),
            best=self.found.evaluation if self.found is not None and self.improved else None,
            before=self.before.kernel,
            after=self.kernel,
            cost=self.cost,
        )

    def record(self) -> TurnRecord:
        """Return the turn as the journal and the history file contain it."""
        proposal, kernel = self.proposal, self.kernel
        return TurnRecord(
            number=self.number,
            lane=self.lane,
            analysis=self.analysis.record(),
            suggestions=self.analysis.suggestions,
            strategy=self.strategy,
            proposal_category=proposal.category if proposal else self.analysis.category,
            rationale=proposal.rationale if proposal else self._why_nothing(),
            before=self.before.kernel.source,
            kernel=kernel.source if kernel else None,
            diff=diff(self.before.kernel.source, kernel.source) if kernel else "",
            improved=self.improved,
            improvement=self.gain - 1.0,
            error=self.error,
            attempts=tuple(attempt.record() for attempt in self.attempts),
            evaluations=tuple(evaluation.summary() for evaluation in self.evaluations),
            metrics=self.found.evaluation.summary() if self.found else None,
            tool_calls=self.tool_calls,
            skipped_rules=self.skipped_rules,
            cost=dict(self.cost),
        )


def diff(before: str, after: str) -> str:
    """Return the change between two sources, as a unified diff."""
    lines = difflib.unified_diff(source_lines(before), source_lines(after), "before", "after", n=2, lineterm="")
    return "\n".join(lines)


def fastest(kernel: Kernel, evaluations: tuple[Evaluation, ...]) -> Candidate | None:
    """Return the fastest correct candidate among evaluations of a kernel; disturbed ones only if there is no other."""
    timed = [evaluation for evaluation in evaluations if evaluation.latency_ms is not None]
    timed = [evaluation for evaluation in timed if evaluation.contention is None] or timed
    best = min(timed, key=lambda evaluation: evaluation.latency_ms or 0.0, default=None)
    return None if best is None else Candidate(kernel.bind(Config(best.config)), best)


def latest_turns(records: Iterable[Record]) -> list[TurnRecord]:
    """Return the turns in a journal, by number and lane; one that was cut off and repeated counts once."""
    latest = {(record.number, record.lane): record for record in records if isinstance(record, TurnRecord)}
    return [latest[place] for place in sorted(latest)]
