"""Records of a turn of the optimization loop, for the journal and the history file."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from .json_lines import Line
from .metrics import EvaluationSummary
from .space import Value
from .verdict import Status

_TIMES = ("config", "latency_ms", "gain")


class _TurnPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(_TurnPart):
    """One use of a tool by a model."""

    name: str
    arguments: dict[str, Any]
    result: str
    """The reply to the model."""
    ok: bool
    seconds: float
    trials: int = 0
    """Number of evaluations that it made."""


class AttemptRecord(_TurnPart):
    """One proposal of a turn, or the reason why there was none."""

    strategy: str
    kernel: str | None = None
    """Source of the kernel."""
    error: str = ""
    statuses: tuple[Status, ...] = ()
    config: dict[str, Value] = Field(default_factory=dict)
    """The fastest config."""
    latency_ms: float | None = None
    """Time of the fastest config; None if none was correct and timed."""
    gain: float | None = None
    """For a change of a batch, the speedup over the turn's kernel measured in the same screening, 0.0 if it failed.
    Otherwise None."""

    @model_serializer(mode="wrap")
    def _without_absent_times(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {name: value for name, value in found.items() if name not in _TIMES or value not in (None, {})}


class SkippedRule(_TurnPart):
    """A rewrite rule that did not change a kernel."""

    rule: str
    reason: str
    """Reason why the rule does not apply; for a failed rule, the exception."""
    failed: bool = False
    """Whether the rule failed, which is a bug in the rule."""


class AnalysisRecord(_TurnPart):
    """The bottleneck of a turn's start kernel."""

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

    Fields with defaults are missing in journals that are older than models and lanes.
    """

    kind: Literal["turn"] = "turn"
    number: int = Field(validation_alias="iteration", serialization_alias="iteration")
    lane: int = 0
    """Index of the expansion among those that ran in parallel."""
    analysis: AnalysisRecord = Field(
        default=AnalysisRecord(), validation_alias="bottleneck_analysis", serialization_alias="bottleneck_analysis"
    )
    suggestions: tuple[str, ...] = ()
    strategy: str
    proposal_category: str = Field(default="", validation_alias="category", serialization_alias="category")
    """The bottleneck that the proposal addresses."""
    rationale: str = ""
    before: str | None = None
    """Source of the turn's start kernel."""
    kernel: str | None = None
    """Source of the turn's result."""
    diff: str = Field(default="", validation_alias="code_changes", serialization_alias="code_changes")
    """Unified diff from `before` to `kernel`."""
    improved: bool
    """Whether the result became the best of the run."""
    improvement: float = 0.0
    """`gain` - 1."""
    error: str = ""
    """The first failure of the last attempt."""
    attempts: tuple[AttemptRecord, ...] = ()
    """The proposal, followed by its repairs."""
    skipped_rules: tuple[SkippedRule, ...] = ()
    """Rules that do not apply to `before`, unless an earlier turn says so; missing in older journals."""
    evaluations: tuple[EvaluationSummary, ...] = Field(
        default=(), validation_alias="evaluation_results", serialization_alias="evaluation_results"
    )
    metrics: EvaluationSummary | None = Field(default=None, validation_alias="best", serialization_alias="best")
    """Metrics of the turn's fastest correct kernel; None if none was correct."""
    tool_calls: tuple[ToolCall, ...] = ()
    cost: dict[str, int | float] = Field(default_factory=dict)
    """Exchanges with models, and their tokens, dollars and seconds; empty if rules proposed."""

    @model_serializer(mode="wrap")
    def _without_absent_rules(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {name: value for name, value in found.items() if name != "skipped_rules" or value}

    @property
    def name(self) -> str:
        """Name of the turn: '3.0' is the first expansion of the third turn."""
        return f"{self.number}.{self.lane}"

    @property
    def tried(self) -> tuple[AttemptRecord, ...]:
        """The changes of the turn's batch."""
        return tuple(attempt for attempt in self.attempts if attempt.gain is not None)

    @property
    def category(self) -> str:
        """Category of the bottleneck."""
        return self.analysis.category or self.proposal_category

    @property
    def evidence(self) -> tuple[str, ...]:
        """Evidence for the bottleneck, one line each."""
        return self.analysis.evidence

    @property
    def gain(self) -> float:
        """Approximate speedup over the previous best of the run; 1.0 if nothing improved.

        It is the ratio of two speedups that were measured separately.
        """
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
        """Seconds of waiting for models."""
        return float(self.cost.get("seconds", 0.0))
