"""One turn of the optimization loop as the journal and the history file hold it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from .json_lines import Line
from .metrics import EvaluationSummary
from .space import Value
from .verdict import Status

_TIMES = ("config", "latency_ms", "gain")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(_Part):
    """One use of a tool by a model."""

    name: str
    arguments: dict[str, Any]
    result: str
    """What the model was answered."""
    ok: bool
    seconds: float
    trials: int = 0
    """Evaluations that it took."""


class AttemptRecord(_Part):
    """One proposal of a turn, or why there was none."""

    strategy: str
    kernel: str | None = None
    """Its source."""
    error: str = ""
    statuses: tuple[Status, ...] = ()
    config: dict[str, Value] = Field(default_factory=dict)
    """The values of its parameters where it was fastest."""
    latency_ms: float | None = None
    """Where it was fastest; None when nothing was correct and timed."""
    gain: float | None = None
    """Of one that was tried quickly beside others: its speedup over the turn's kernel as measured beside it, 0.0 when
    it failed; None of any other."""

    @model_serializer(mode="wrap")
    def _without_absent_times(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {name: value for name, value in found.items() if name not in _TIMES or value not in (None, {})}


class SkippedRule(_Part):
    """A rewrite rule that made no change of a kernel."""

    rule: str
    reason: str
    """Why it does not fit the kernel, in a few words; of a rule that failed, its exception."""
    failed: bool = False
    """Whether the rule failed, which is a bug of its own."""


class AnalysisRecord(_Part):
    """The bottleneck of the kernel that a turn began with."""

    category: str = ""
    ranking: tuple[str, ...] = ()
    """All categories, the most promising first."""
    evidence: tuple[str, ...] = ()
    tier: str = ""
    performance: str = ""
    suggestions: tuple[str, ...] = ()
    work: str = ""
    latency_ms: float | None = None
    floor_ms: float | None = None


class TurnRecord(Line):
    """A finished turn: one kernel was analysed, changed and measured.

    What has a default is missing in journals of before there were models and lanes.
    """

    kind: Literal["turn"] = "turn"
    number: int = Field(validation_alias="iteration", serialization_alias="iteration")
    lane: int = 0
    """Which of the expansions that ran side by side."""
    analysis: AnalysisRecord = Field(
        default=AnalysisRecord(), validation_alias="bottleneck_analysis", serialization_alias="bottleneck_analysis"
    )
    suggestions: tuple[str, ...] = ()
    strategy: str
    proposal_category: str = Field(default="", validation_alias="category", serialization_alias="category")
    """The bottleneck that the proposal is aimed at."""
    rationale: str = ""
    before: str | None = None
    """Source of the kernel that was to be made faster."""
    kernel: str | None = None
    """Source of what the turn arrived at."""
    diff: str = Field(default="", validation_alias="code_changes", serialization_alias="code_changes")
    """From `before` to `kernel`, as a unified diff."""
    improved: bool
    """Whether it became the best of the run."""
    improvement: float = 0.0
    """`gain` - 1."""
    error: str = ""
    """The first failure of the last attempt."""
    attempts: tuple[AttemptRecord, ...] = ()
    """The proposal, then its repairs."""
    skipped_rules: tuple[SkippedRule, ...] = ()
    """Rules that did not fit `before`, where no earlier turn says so; missing in journals that older versions wrote."""
    evaluations: tuple[EvaluationSummary, ...] = Field(
        default=(), validation_alias="evaluation_results", serialization_alias="evaluation_results"
    )
    metrics: EvaluationSummary | None = Field(default=None, validation_alias="best", serialization_alias="best")
    """Of the fastest correct kernel of the turn; None when nothing was correct."""
    tool_calls: tuple[ToolCall, ...] = ()
    cost: dict[str, int | float] = Field(default_factory=dict)
    """Exchanges with models, their tokens, dollars and seconds; empty where rules proposed."""

    @model_serializer(mode="wrap")
    def _without_absent_rules(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {name: value for name, value in found.items() if name != "skipped_rules" or value}

    @property
    def name(self) -> str:
        """'3.0': the third turn, its first expansion."""
        return f"{self.number}.{self.lane}"

    @property
    def tried(self) -> tuple[AttemptRecord, ...]:
        """The changes that were tried quickly beside each other."""
        return tuple(attempt for attempt in self.attempts if attempt.gain is not None)

    @property
    def category(self) -> str:
        """The bottleneck that was found."""
        return self.analysis.category or self.proposal_category

    @property
    def evidence(self) -> tuple[str, ...]:
        """Why that is the bottleneck, one line each."""
        return self.analysis.evidence

    @property
    def gain(self) -> float:
        """About how many times as fast as the best of the run before, by the speedups of both, which were measured in
        two runs; 1.0 when nothing improved."""
        return 1.0 + self.improvement

    @property
    def tokens(self) -> int:
        """Tokens of the turn's exchanges with models."""
        return int(self.cost.get("tokens", 0))

    @property
    def dollars(self) -> float:
        """Cost of the turn's exchanges with models."""
        return float(self.cost.get("dollars", 0.0))

    @property
    def model_seconds(self) -> float:
        """Spent waiting for models."""
        return float(self.cost.get("seconds", 0.0))
