"""The parts of a recorded run, as its journal and its transcript tell of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from ...core import Trial, Value
from ...core.journal import Record
from ..turn import ToolCall, summary


@dataclass(frozen=True)
class Metrics:
    """What was measured of a kernel; None for what was not, or what an older run did not write down."""

    status: str
    latency_ms: float | None = None
    reference_ms: float | None = None
    speedup: float | None = None
    interval: tuple[float, float] | None = None
    """In which the speedup lies, as the 95 % intervals of both medians allow."""
    max_abs_error: float | None = None
    compile_s: float | None = None
    contention: float | None = None
    """Cores that other processes kept busy, where that was too much to trust the figures."""
    config: Mapping[str, Value] | None = None
    message: str = ""

    @property
    def trusted(self) -> bool:
        """Whether it was timed, and nothing disturbed that."""
        return self.latency_ms is not None and self.contention is None


@dataclass(frozen=True)
class TrialRecord:
    """One evaluation of the run, or of a search that a tool ran."""

    origin: str
    """'start', 'turn 2: split-grid', 'search', 'search: final', 'final'."""
    metrics: Metrics
    seconds: float
    at: str
    """When it ended, ISO 8601; empty in old journals."""
    elapsed_s: float | None = None
    """From the begin of the first trial to the end of this one."""


@dataclass(frozen=True)
class AttemptRecord:
    """One proposal of a turn, or why there was none."""

    strategy: str
    kernel: str | None = None
    error: str = ""
    statuses: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolCallMessage:
    """A tool call in a message."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class ToolResultMessage:
    """A tool's result in a message."""

    name: str
    text: str


@dataclass(frozen=True)
class Message:
    """One message of a conversation with a model."""

    role: str
    """system, user, assistant or tool."""
    text: str = ""
    tool_calls: tuple[ToolCallMessage, ...] = ()
    tool_results: tuple[ToolResultMessage, ...] = ()


@dataclass(frozen=True)
class Exchange:
    """One request to a model and what came of it."""

    number: int
    lane: str
    """'3.0': the third turn, its first expansion; 'check.' and the model's name before the first."""
    purpose: str
    model: str
    sent: tuple[Message, ...]
    """The messages that the lane's exchange before had not shown yet."""
    tools: tuple[str, ...]
    """On offer."""
    reply: Message | None
    """None when there was an error."""
    error: str
    input_tokens: int
    output_tokens: int
    dollars: float
    seconds: float
    at: str

    @property
    def tokens(self) -> int:
        """Tokens of the request and the reply."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True)
class TurnRecord:
    """A finished turn: one kernel was analysed, changed and measured."""

    number: int
    lane: int
    category: str
    evidence: tuple[str, ...]
    suggestions: tuple[str, ...]
    strategy: str
    rationale: str
    attempts: tuple[AttemptRecord, ...]
    """The proposal, then its repairs."""
    before: str | None
    """Source of the kernel that was to be made faster."""
    kernel: str | None
    """Source of what the turn arrived at."""
    diff: str
    """From `before` to `kernel`, as a unified diff."""
    metrics: Metrics | None
    """Of the fastest right kernel of the turn; None when nothing was right."""
    improved: bool
    gain: float
    """How many times faster than the best of the run before; 1.0 when nothing improved."""
    error: str
    tool_calls: tuple[ToolCall, ...] = ()
    tokens: int = 0
    dollars: float = 0.0
    model_seconds: float = 0.0
    exchanges: tuple[Exchange, ...] = ()

    @property
    def name(self) -> str:
        """'3.0': the third turn, its first expansion."""
        return f"{self.number}.{self.lane}"


_PARTS = ("text", "tool_calls", "tool_results")
_metrics = TypeAdapter(Metrics)
_turn = TypeAdapter(TurnRecord)
_exchange = TypeAdapter(Exchange)


def metrics_of(said: Record | None) -> Metrics | None:
    """The figures of a summary."""
    return None if said is None else _metrics.validate_python(said)


def trial_of(trial: Trial, search: bool) -> TrialRecord:
    """A trial without its samples."""
    origin = trial.origin
    if search:
        origin = "search" if origin == "search" else f"search: {origin}"
    return TrialRecord(origin, _metrics.validate_python(summary(trial.evaluation)), trial.seconds, trial.at)


def turn_of(record: Record, exchanges: Iterable[Exchange]) -> TurnRecord:
    """A journal's `turn` record, with the exchanges of its lane."""
    lane = record.get("lane", 0)
    own = [exchange for exchange in exchanges if exchange.lane == f"{record['iteration']}.{lane}"]
    analysis, cost = record.get("bottleneck_analysis", {}), record.get("cost", {})
    return _turn.validate_python(
        {
            **record,
            "number": record["iteration"],
            "lane": lane,
            "category": analysis.get("category") or record.get("category", ""),
            "evidence": analysis.get("evidence", ()),
            "suggestions": record.get("suggestions", ()),
            "rationale": record.get("rationale", ""),
            "attempts": record.get("attempts", ()),
            "before": record.get("before"),
            "kernel": record.get("kernel"),
            "diff": record.get("code_changes", ""),
            "metrics": record.get("best"),
            "gain": 1.0 + record.get("improvement", 0.0),
            "error": record.get("error", ""),
            "tokens": cost.get("tokens", 0),
            "dollars": cost.get("dollars", 0.0),
            "model_seconds": cost.get("seconds", 0.0),
            "exchanges": own,
        }
    )


class Conversations:
    """Reads exchanges in order, and tells what each sent that its lane had not sent before."""

    def __init__(self) -> None:
        self._shown: dict[str, list[Record]] = {}

    def read(self, record: Record) -> Exchange:
        """A transcript's `exchange` record."""
        request, reply, lane = record["request"], record.get("reply"), str(record["lane"])
        sent = [{"role": "system", "text": request.get("system") or ""}, *request["messages"]]
        before = self._shown.get(lane, [])
        common = _common(before, sent)
        # The reply before comes back as the assistant's message: it was shown as that reply.
        again = 0 < len(before) == common < len(sent) and sent[common]["role"] == "assistant"
        self._shown[lane] = sent
        return _exchange.validate_python(
            {
                "number": record["number"],
                "lane": lane,
                "purpose": record.get("purpose", ""),
                "model": record.get("model", ""),
                "sent": [message for message in sent[common + again :] if any(message.get(part) for part in _PARTS)],
                "tools": request.get("tools", ()),
                "reply": {"role": "assistant", **reply} if reply else None,
                "error": record.get("error", ""),
                "input_tokens": (reply or {}).get("input_tokens") or 0,
                "output_tokens": (reply or {}).get("output_tokens") or 0,
                "dollars": record.get("dollars") or 0.0,
                "seconds": record.get("seconds") or 0.0,
                "at": record.get("at", ""),
            }
        )


def _common(before: Sequence[Record], now: Sequence[Record]) -> int:
    same = 0
    while same < min(len(before), len(now)) and before[same] == now[same]:
        same += 1
    return same
