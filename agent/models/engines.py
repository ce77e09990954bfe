"""The engine behind DSPy that all models share: `complete` takes one request, gets a reply, and records it.

An engine raises `LMError`, which DSPy passes on unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import dspy
from dspy import lm15

from .exchange import Record, reply_record, request_record, response_of
from .secrets import Redactor
from .transcript import Transcript


class NoReplyError(dspy.LMError):
    """The reply file of a person does not exist yet."""


class NothingRecordedError(dspy.LMError):
    """The recorded replies are used up."""


class BudgetSpentError(dspy.LMError):
    """The limit of tokens, dollars or seconds is reached."""


class ReplySource(Protocol):
    """Replies to the requests of one lane."""

    supports_function_calling: bool

    def answer(self, request: lm15.Request) -> tuple[lm15.Response, float | None]:
        """Return the response and its cost in dollars, None if the price is unknown."""
        ...

    def recalled(self) -> None:
        """Called when the lane's next reply is already known from the resumed run."""
        return


class Engine:
    """Replies from the transcript of a resumed run, otherwise from the source. It records every exchange."""

    def __init__(
        self,
        source: ReplySource,
        transcript: Transcript,
        lane: str,
        purpose: str,
        check_budget: Callable[[], str | None],
        redact: Redactor,
    ) -> None:
        self._source = source
        self._transcript = transcript
        self._lane = lane
        self._purpose = purpose
        self._check_budget = check_budget
        self._redact = redact
        self.supports_function_calling = source.supports_function_calling
        self.supported_params = frozenset({"tools", "tool_choice", "temperature", "max_tokens"})

    def complete(self, request: lm15.Request) -> lm15.Response:
        """Do one exchange."""
        sent = self._redact.record(request_record(request))
        if (known := self._transcript.recall(self._lane, sent)) is not None:
            self._source.recalled()
            return response_of(known, request.model)
        if (spent := self._check_budget()) is not None:
            raise BudgetSpentError(spent)
        start = time.monotonic()
        try:
            response, dollars = self._source.answer(request)
        except (NoReplyError, NothingRecordedError, BudgetSpentError):
            raise
        except dspy.LMError as error:
            outcome = {"error": self._redact(f"{type(error).__name__}: {error}")}
            self._note(request, sent, outcome, start)
            raise
        reply = self._redact.record(reply_record(response))
        self._note(request, sent, {"reply": reply, "dollars": dollars}, start)
        return response

    def stream(self, request: lm15.Request) -> Iterator[Any]:
        """Yield the response as events, once it is complete."""
        return iter(lm15.response_to_events(self.complete(request)))

    def close(self) -> None:
        """Do nothing: the engine owns no resources."""

    def _note(self, request: lm15.Request, sent: Record, outcome: Record, start: float) -> None:
        self._transcript.add(self._lane, self._purpose, request.model, sent, outcome, seconds=time.monotonic() - start)
