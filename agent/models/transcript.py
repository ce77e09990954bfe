"""Every exchange with a model, on disk as soon as it ends: `transcript.jsonl`."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ...core import Budget, ExchangeRecord, Journal, JournalError, ModelError
from ...core.exchange_record import Reply
from ...core.files import read_bytes
from ...core.json_lines import split_lines
from ...core.text import wrong_field
from .exchange import digest

PROBE = "probe"
"""The purpose of an exchange that checks whether a model works."""


class Transcript:
    """The exchanges of a run, and of the earlier run that it resumes.

    Exchanges belong to lanes: parallel conversations, each in its own order. An exchange of an earlier run is reused
    where the lane sends the same request again, so that no request is repeated or paid for twice. Probes belong to no
    conversation, and are never reused. Safe to use from several threads.
    """

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)
        self._lock = threading.Lock()
        self._known: dict[str, list[ExchangeRecord]] = defaultdict(list)
        self.tokens = 0
        self.dollars = 0.0
        for record in self._journal.of(ExchangeRecord):
            self._count(record)
            if record.purpose != PROBE:
                self._known[record.lane].append(record)

    @property
    def path(self) -> Path:
        """The transcript's file."""
        return self._journal.path

    @property
    def spent(self) -> Budget:
        """Return the tokens and dollars of all exchanges, including those of the resumed run."""
        with self._lock:
            return Budget(tokens=self.tokens, dollars=self.dollars)

    def recall(self, lane: str, request: dict[str, Any]) -> Reply | None:
        """Return the resumed run's reply to the lane's next request if the request is equal; None for a failure."""
        sent = digest(request)
        with self._lock:
            known = self._known[lane]
            if not known or known[0].digest != sent:
                # From the first difference on, the lane makes its own requests.
                known.clear()
            while known and known[0].digest == sent:
                record = known.pop(0)
                if record.reply is not None:
                    return record.reply
            return None

    def add(
        self, lane: str, purpose: str, model: str, request: dict[str, Any], outcome: dict[str, Any], seconds: float
    ) -> None:
        """Write a request and its outcome: a `reply` and its `dollars`, or an `error`."""
        with self._lock:
            record = ExchangeRecord.model_validate(
                {
                    "number": 1 + sum(1 for _ in self._journal.of(ExchangeRecord)),
                    "lane": lane,
                    "purpose": purpose,
                    "model": model,
                    "digest": digest(request),
                    "request": request,
                    **outcome,
                    "seconds": round(seconds, 3),
                    "at": datetime.now(UTC).isoformat(timespec="seconds"),
                }
            )
            self._journal.append(record)
            self._count(record)

    def cost(self, lanes: Iterable[str]) -> dict[str, float]:
        """Return exchanges, tokens, dollars and seconds of these lanes."""
        wanted = set(lanes)
        with self._lock:
            found = [record for record in self._journal.of(ExchangeRecord) if record.lane in wanted]
        return {
            "exchanges": len(found),
            "tokens": sum(record.tokens for record in found),
            "dollars": sum(record.dollars or 0.0 for record in found),
            "seconds": sum(record.seconds or 0.0 for record in found),
        }

    def priced(self, lane: str) -> bool:
        """Return whether the cost of the lane's last exchange is known."""
        with self._lock:
            last = [record for record in self._journal.of(ExchangeRecord) if record.lane == lane][-1]
        return last.dollars is not None

    def close(self) -> None:
        """Close the file."""
        self._journal.close()

    def _count(self, record: ExchangeRecord) -> None:
        self.tokens += record.tokens
        self.dollars += record.dollars or 0.0


@dataclass(frozen=True)
class RecordedReply:
    """A reply to serve again. A person may have written it, with no more than a text."""

    reply: Reply
    lane: str | None = None
    """None: it fits any lane."""
    purpose: str | None = None
    dollars: float | None = None


_recorded = TypeAdapter(RecordedReply)


def read_replies(path: Path) -> list[RecordedReply]:
    """Return the replies of a transcript, in order.

    Raises `ModelError` without any, and for a damaged one.
    """
    try:
        lines, _ = split_lines(read_bytes(path), path)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}; give the transcript.jsonl of a run") from None
    except JournalError as error:
        raise ModelError(f"recorded replies: {error}") from None
    replies = [
        _reply(said, path, line) for line, said in enumerate(lines, start=1) if isinstance(said.get("reply"), dict)
    ]
    if not replies:
        raise ModelError(f"{path} contains no recorded replies; give the transcript.jsonl of a run with a model")
    return replies


def _reply(said: dict[str, Any], path: Path, line: int) -> RecordedReply:
    try:
        return _recorded.validate_python(said, extra="ignore")
    except ValidationError as error:
        what = wrong_field(error)
    raise ModelError(f"{path}, line {line} is not a valid exchange: {what}; fix or remove that line")
