"""The parts of a history that no record holds as they are: trials in time, exchanges without repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core import EvaluationSummary, ExchangeRecord, Trial
from ...core.exchange_record import Message, Reply


@dataclass(frozen=True)
class RecordedTrial:
    """One evaluation of the run, or of a search that a tool ran, without its samples."""

    origin: str
    """'start', 'turn 2: split-grid', 'search', 'search: final', 'final'."""
    metrics: EvaluationSummary
    seconds: float
    at: str
    """When it ended, ISO 8601; empty in old journals."""
    elapsed_s: float | None = None
    """From the begin of the first trial to the end of this one."""

    @classmethod
    def of(cls, trial: Trial, search: bool) -> RecordedTrial:
        """A trial of the run's journal, or of a search's."""
        origin = trial.origin
        if search:
            origin = "search" if origin == "search" else f"search: {origin}"
        return cls(origin, trial.evaluation.summary(), trial.seconds, trial.at)


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
    reply: Reply | None
    """None when there was an error."""
    error: str
    dollars: float
    seconds: float
    at: str

    @property
    def input_tokens(self) -> int:
        """Tokens of the request; 0 without a reply."""
        return (self.reply and self.reply.input_tokens) or 0

    @property
    def output_tokens(self) -> int:
        """Tokens of the reply; 0 without one."""
        return (self.reply and self.reply.output_tokens) or 0

    @property
    def tokens(self) -> int:
        """Tokens of the request and the reply."""
        return self.input_tokens + self.output_tokens


class Conversations:
    """Reads exchanges in order, and tells what each sent that its lane had not sent before."""

    def __init__(self) -> None:
        self._shown: dict[str, Sequence[Message]] = {}

    def read(self, record: ExchangeRecord) -> Exchange:
        """An exchange of a transcript."""
        sent = (Message(role="system", text=record.request.system or ""), *record.request.messages)
        before = self._shown.get(record.lane, ())
        common = _common(before, sent)
        # The reply before comes back as the assistant's message: it was shown as that reply.
        again = 0 < len(before) == common < len(sent) and sent[common].role == "assistant"
        self._shown[record.lane] = sent
        return Exchange(
            number=record.number,
            lane=record.lane,
            purpose=record.purpose,
            model=record.model,
            sent=tuple(message for message in sent[common + again :] if not message.empty),
            tools=record.request.tools,
            reply=record.reply,
            error=record.error,
            dollars=record.dollars or 0.0,
            seconds=record.seconds or 0.0,
            at=record.at,
        )


def _common(before: Sequence[Message], now: Sequence[Message]) -> int:
    same = 0
    while same < min(len(before), len(now)) and before[same] == now[same]:
        same += 1
    return same
