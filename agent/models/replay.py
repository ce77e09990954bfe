"""Recorded replies, in the order in which they were given."""

from __future__ import annotations

import threading
from pathlib import Path

from dspy import lm15

from .engines import NothingRecorded, Source
from .exchange import Record, response_of
from .transcript import read_replies


class Recording:
    """What is left of the replies in a file; the lanes of a run take from it side by side."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left = read_replies(path)
        self._lock = threading.Lock()
        # Whether the recorded model was called with tools shows in what it answered.
        self.calls_tools = any(record["reply"].get("tool_calls") for record in self._left)

    def take(self, lane: str, purpose: str) -> Record | None:
        """The next exchange of this lane and purpose; one that names none, as a person may write it, serves anyone."""
        with self._lock:
            for index, record in enumerate(self._left):
                if record.get("lane", lane) == lane and record.get("purpose", purpose) == purpose:
                    return self._left.pop(index)
        return None


class Replay(Source):
    """Answers one lane from a recording, whatever is asked: prompts may have changed since."""

    def __init__(self, recording: Recording, lane: str, purpose: str) -> None:
        self._recording = recording
        self._lane = lane
        self._purpose = purpose
        self.supports_function_calling = recording.calls_tools

    def answer(self, request: lm15.Request) -> tuple[lm15.Response, float]:
        path = self._recording.path
        record = self._recording.take(self._lane, self._purpose)
        if record is None:
            raise NothingRecorded(f"{path} holds no further reply for conversation {self._lane} ({self._purpose})")
        try:
            return response_of(record["reply"], request.model), float(record.get("dollars") or 0.0)
        except (KeyError, TypeError, ValueError, AttributeError):
            number = record.get("number", "without a number")
            raise NothingRecorded(f"{path}: exchange {number} has no valid reply; mend or remove it") from None

    def recalled(self) -> None:
        """What the resumed run was answered is not answered again."""
        self._recording.take(self._lane, self._purpose)
