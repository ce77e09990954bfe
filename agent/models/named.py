"""Models by name, through DSPy's client, with retries."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dspy
from dspy import lm15

from .engines import BudgetSpentError, ReplySource
from .failures import short_message

LOOK_S = 0.5
"""Seconds between two checks of the run's time limit during a wait."""


@dataclass(frozen=True)
class RetryPolicy:
    """Number and duration of retries of a request after a temporary failure."""

    retries: int
    seconds: float
    """Seconds after the first request, after which it is not repeated."""
    tell: Callable[[str], None]
    late: Callable[[], str | None]
    """Returns the limit of the run that is reached, or None."""
    remaining: Callable[[], float | None]
    """Returns the seconds that are left to the run; None without a limit."""

    def cap(self) -> float | None:
        """Return the seconds that a request may take if the run leaves it less than `seconds`."""
        left = self.remaining()
        return None if left is None or left >= self.seconds else max(left, LOOK_S)


class Named(ReplySource):
    """A model by its name. DSPy's client has the time limits and the prices.

    DSPy's own retries are not used: they wait as long as a server requests, even an hour, beyond the run's time limit,
    and without a message. With `watch`, the first try is streamed, and `watch` gets the number of characters of the
    reply so far.
    """

    def __init__(self, lm: dspy.LM, policy: RetryPolicy, watch: Callable[[int], None] | None = None) -> None:
        self._lm = lm
        self._policy = policy
        self._watch = watch
        self.supports_function_calling = bool(lm.supports_function_calling)

    def answer(self, request: lm15.Request) -> tuple[lm15.Response, float | None]:
        """Return the reply, after retries of temporary failures, and its cost in dollars; None for an unknown price."""
        start = time.monotonic()
        for failures in itertools.count():
            cap = self._policy.cap()
            # A copy, since histories of parallel lanes must not mix.
            lm = self._lm.copy() if cap is None else self._lm.copy(timeout=cap)
            try:
                # After a broken stream, the request is repeated without streaming.
                response = self._streamed(lm, request) if self._watch and not failures else lm(request)
                return response, lm.history[-1].get("cost")
            except dspy.LMError as error:
                self._wait(error, failures, start)
        raise AssertionError("count has no end")

    def _wait(self, error: dspy.LMError, failures: int, start: float) -> None:
        """Wait as long as the server requests, otherwise 1, 2, 4, 8 seconds.

        Raises the error if a retry cannot help.
        """
        pause = float(2**failures if error.retry_after is None else error.retry_after)
        end = time.monotonic() + pause
        passing = dspy.is_retryable_lm_error(error) or isinstance(error, dspy.LMStreamAssemblyError)
        if passing and (late := self._policy.late()):
            raise BudgetSpentError(late) from error
        if not passing or failures >= self._policy.retries or end - start > self._policy.seconds:
            raise error
        self._policy.tell(f"{self._lm.model} failed for now ({short_message(error)}); asking again in {pause:.0f} s")
        while (left := end - time.monotonic()) > 0:
            if late := self._policy.late():
                raise BudgetSpentError(late) from error
            time.sleep(min(left, LOOK_S))

    def _streamed(self, lm: dspy.LM, request: lm15.Request) -> lm15.Response:
        assert self._watch is not None
        characters = 0
        for item in dspy.streamify(_Asking(lm), async_streaming=False)(request=request):
            if isinstance(item, dspy.Prediction):
                return item.response
            characters += sum(_characters(choice.delta) for choice in item.choices)
            self._watch(characters)
            # The client's time limit bounds the wait for each piece, not for the whole reply.
            if late := self._policy.late():
                raise BudgetSpentError(late)
        raise dspy.LMStreamAssemblyError("the stream ended without a reply")


class _Asking(dspy.Module):
    """One request as a module, since DSPy streams modules only."""

    def __init__(self, lm: dspy.LM) -> None:
        super().__init__()
        self.lm = lm

    def forward(self, request: lm15.Request) -> dspy.Prediction:
        return dspy.Prediction(response=self.lm(request))


def _characters(delta: Any) -> int:
    """Return the number of characters that a piece adds: text, thoughts, arguments of tool calls."""
    texts = [getattr(delta, "content", None), getattr(delta, "reasoning_content", None)]
    texts += [call.function.arguments for call in getattr(delta, "tool_calls", None) or ()]
    return sum(len(text) for text in texts if text)
