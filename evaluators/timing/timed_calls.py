"""Times a model on inputs that change with every call. The same code times the candidate and the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..correctness.inputs import Feed
from ..workers.channel import Message
from ..workers.modules import ProblemModule
from .clock import Clock, bind_call


class TimedCalls:
    """A clock, the inputs of the calls that it times, and the last call's outputs.

    Create it before a candidate's code is loaded.
    """

    def __init__(self, device: str, problem: ProblemModule) -> None:
        self.clock = Clock(device)
        self.call_returned: Callable[[], object] = lambda: None
        """Called after each call."""
        self._feed = Feed(problem)
        self.last: Any = None

    def feed(self, seed: int) -> Feed:
        """Return the inputs drawn from the seed, at the next call's."""
        self._feed.restart(seed)
        return self._feed

    def time(self, name: int, model: Any, seed: int, samples: int, graph: bool) -> Message:
        """Time single calls of the model of this name, on inputs drawn from the seed.

        `calls` in the response is the number of inputs drawn from the seed so far.
        """
        self.last = None
        self.clock.graph = graph
        feed = self.feed(seed)
        taken = self.clock.sample(partial(self._next_call, name, model, feed), samples)
        self.call_returned()
        self.last = taken.results[-1]
        return {**taken.message(self.clock.method), "calls": feed.calls}

    def _next_call(self, name: int, model: Any, feed: Feed) -> tuple[tuple[int, int], Callable[[], object]]:
        self.call_returned()  # the previous one
        number, inputs = feed.next()
        return (name, number), bind_call(model, inputs)

    @property
    def is_large(self) -> bool:
        """Whether the inputs are too large to be kept without need."""
        return self._feed.is_large

    def release(self) -> None:
        """Drop the last call's outputs and the inputs where these are large; the next call draws others."""
        if self.is_large:
            self.forget(self._feed.problem)

    def forget(self, problem: ProblemModule) -> None:
        """Drop graphs and inputs; from now on time another problem, or other models."""
        self.last = None
        self.clock.forget()
        self._feed = Feed(problem)
