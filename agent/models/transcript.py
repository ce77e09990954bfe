"""Every exchange with a model, on disk as soon as it ends: `transcript.jsonl`."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from ...core import Budget, Journal, JournalError, ModelError, read_journal
from .exchange import Record, digest

KIND = "exchange"
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
        self._known: dict[str, list[Record]] = defaultdict(list)
        self.tokens = 0
        self.dollars = 0.0
        for line, record in enumerate(self._journal.records, start=1):
            if record.get("kind") == KIND:
                try:
                    self._count(record)
                    if record.get("purpose") != PROBE:
                        self._known[str(record["lane"])].append(record)
                except (KeyError, TypeError, ValueError):
                    raise JournalError(f"{path}, line {line} is no valid exchange; fix or remove that line") from None

    @property
    def path(self) -> Path:
        """The transcript's file."""
        return self._journal.path

    @property
    def spent(self) -> Budget:
        """Return the tokens and dollars of all exchanges, those of the resumed run too."""
        with self._lock:
            return Budget(tokens=self.tokens, dollars=self.dollars)

    def recall(self, lane: str, request: Record) -> Record | None:
        """Return the resumed run's outcome of the lane's next exchange if the request is equal; None for a failure."""
        sent = digest(request)
        with self._lock:
            known = self._known[lane]
            if not known or known[0]["digest"] != sent:
                # From the first difference on, the lane makes its own requests.
                known.clear()
            while known and known[0]["digest"] == sent:
                record = known.pop(0)
                if "reply" in record:
                    return record
            return None

    def add(self, lane: str, purpose: str, model: str, request: Record, outcome: Record, seconds: float) -> None:
        """Write a request and its outcome: a `reply`, or an `error`."""
        with self._lock:
            record = {
                "kind": KIND,
                "number": 1 + sum(1 for _ in self._journal.of_kind(KIND)),
                "lane": lane,
                "purpose": purpose,
                "model": model,
                "digest": digest(request),
                "request": request,
                **outcome,
                "seconds": round(seconds, 3),
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            self._journal.append(record)
            self._count(record)

    def cost(self, lanes: Iterable[str]) -> Record:
        """Return exchanges, tokens, dollars and seconds of these lanes."""
        wanted = set(lanes)
        with self._lock:
            found = [r for r in self._journal.of_kind(KIND) if r["lane"] in wanted]
        return {
            "exchanges": len(found),
            "tokens": sum(_tokens(record) for record in found),
            "dollars": sum(record.get("dollars") or 0.0 for record in found),
            "seconds": sum(record.get("seconds") or 0.0 for record in found),
        }

    def priced(self, lane: str) -> bool:
        """Return whether the cost of the lane's last exchange is known."""
        with self._lock:
            last = [record for record in self._journal.of_kind(KIND) if record["lane"] == lane][-1]
        return last.get("dollars") is not None

    def close(self) -> None:
        """Close the file."""
        self._journal.close()

    def _count(self, record: Record) -> None:
        self.tokens += _tokens(record)
        self.dollars += float(record.get("dollars") or 0.0)


def _tokens(record: Record) -> int:
    reply = record.get("reply") or {}
    return int(reply.get("input_tokens") or 0) + int(reply.get("output_tokens") or 0)


def read_replies(path: Path) -> list[Record]:
    """Return the exchanges of a transcript that ended with a reply, in order. Raises `ModelError` without any."""
    try:
        records = read_journal(path)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}; give the transcript.jsonl of a run") from None
    except JournalError as error:
        raise ModelError(f"recorded replies: {error}") from None
    replies = [record for record in records if isinstance(record.get("reply"), dict)]
    if not replies:
        raise ModelError(f"{path} contains no recorded replies; give the transcript.jsonl of a run with a model")
    return replies
