"""Models by their names, through DSPy's client, and when they are asked again."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dspy
from dspy import lm15

from .engines import BudgetSpent, Source
from .failures import said

LOOK_S = 0.5
"""How often a wait looks whether the run's time is over."""


@dataclass(frozen=True)
class Patience:
    """How often and how long a server that fails for the moment is asked again."""

    retries: int
    seconds: float
    """A request is not repeated once this has passed since it was first sent."""
    tell: Callable[[str], None]
    late: Callable[[], str | None]
    """Which limit of the run is reached, in words, or None."""
    remaining: Callable[[], float | None]
    """Seconds that are left to the run; None without a limit."""

    def cap(self) -> float | None:
        """Seconds that a request may take where the run leaves it less than `seconds`."""
        left = self.remaining()
        return None if left is None or left >= self.seconds else max(left, LOOK_S)


class Named(Source):
    """A model by its name. DSPy's client has the time limits and the prices.

    The waiting between retries is not left to DSPy: it waits as long as a server says, be it an hour, past the run's
    time limit, and tells nobody. With `watch`, the first try is streamed, and `watch` is told how many characters of
    the reply have come so far.
    """

    def __init__(self, lm: dspy.LM, patience: Patience, watch: Callable[[int], None] | None = None) -> None:
        self._lm = lm
        self._patience = patience
        self._watch = watch
        self.supports_function_calling = bool(lm.supports_function_calling)

    def answer(self, request: lm15.Request) -> tuple[lm15.Response, float | None]:
        start = time.monotonic()
        for failures in itertools.count():
            cap = self._patience.cap()
            # A copy, since histories of lanes that run side by side must not mix.
            lm = self._lm.copy() if cap is None else self._lm.copy(timeout=cap)
            try:
                # A stream that broke is asked for in one piece.
                response = self._streamed(lm, request) if self._watch and not failures else lm(request)
                return response, lm.history[-1].get("cost")
            except dspy.LMError as error:
                self._wait(error, failures, start)
        raise AssertionError("count has no end")

    def _wait(self, error: dspy.LMError, failures: int, start: float) -> None:
        """Wait as long as the server says, else 1, 2, 4, 8 seconds. Raises the error where that is of no use."""
        pause = float(2**failures if error.retry_after is None else error.retry_after)
        end = time.monotonic() + pause
        passing = dspy.is_retryable_lm_error(error) or isinstance(error, dspy.LMStreamAssemblyError)
        if passing and (late := self._patience.late()):
            raise BudgetSpent(late) from error
        if not passing or failures >= self._patience.retries or end - start > self._patience.seconds:
            raise error
        self._patience.tell(f"{self._lm.model} failed for now ({said(error)}); asking again in {pause:.0f} s")
        while (left := end - time.monotonic()) > 0:
            if late := self._patience.late():
                raise BudgetSpent(late) from error
            time.sleep(min(left, LOOK_S))

    def _streamed(self, lm: dspy.LM, request: lm15.Request) -> lm15.Response:
        assert self._watch is not None
        characters = 0
        for item in dspy.streamify(_Asking(lm), async_streaming=False)(request=request):
            if isinstance(item, dspy.Prediction):
                return item.response
            characters += sum(_characters(choice.delta) for choice in item.choices)
            self._watch(characters)
            # A time limit of the client bounds the wait for each piece, not that for the whole.
            if late := self._patience.late():
                raise BudgetSpent(late)
        raise dspy.LMStreamAssemblyError("the stream ended without a reply")


class _Asking(dspy.Module):
    """One request as a module, which is what DSPy can stream."""

    def __init__(self, lm: dspy.LM) -> None:
        super().__init__()
        self.lm = lm

    def forward(self, request: lm15.Request) -> dspy.Prediction:
        return dspy.Prediction(response=self.lm(request))


def _characters(delta: Any) -> int:
    """How much one piece of a stream adds: text, thoughts, arguments of tool calls."""
    texts = [getattr(delta, "content", None), getattr(delta, "reasoning_content", None)]
    texts += [call.function.arguments for call in getattr(delta, "tool_calls", None) or ()]
    return sum(len(text) for text in texts if text)
