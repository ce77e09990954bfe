"""Recorded replies, in their recorded order."""

from __future__ import annotations

import threading
from pathlib import Path

from dspy import lm15

from .engines import NothingRecordedError, ReplySource
from .exchange import response_of
from .transcript import RecordedReply, read_replies


class RecordedReplies:
    """The unused replies in a file; the lanes of a run take from it in parallel."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left = read_replies(path)
        self._lock = threading.Lock()
        # Whether the recorded model was called with tools shows in its replies.
        self.calls_tools = any(record.reply.tool_calls for record in self._left)

    def take(self, lane: str, purpose: str) -> RecordedReply | None:
        """Return the next exchange of this lane and purpose; one without either, as a person may write it, fits any."""
        with self._lock:
            for index, record in enumerate(self._left):
                if record.lane in (None, lane) and record.purpose in (None, purpose):
                    return self._left.pop(index)
        return None


class ReplaySource(ReplySource):
    """Replies to one lane from a recording, whatever the prompt, since prompts may have changed."""

    def __init__(self, recording: RecordedReplies, lane: str, purpose: str) -> None:
        self._recording = recording
        self._lane = lane
        self._purpose = purpose
        self.supports_function_calling = recording.calls_tools

    def answer(self, request: lm15.Request) -> tuple[lm15.Response, float]:
        """Return the next recorded reply; it costs 0 dollars. Raises `NothingRecordedError`."""
        path = self._recording.path
        record = self._recording.take(self._lane, self._purpose)
        if record is None:
            raise NothingRecordedError(
                f"{path} contains no further reply for conversation {self._lane} ({self._purpose})"
            )
        return response_of(record.reply, request.model), record.dollars or 0.0

    def recalled(self) -> None:
        """Skip the reply that the resumed run has used already."""
        self._recording.take(self._lane, self._purpose)
