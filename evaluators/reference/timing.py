"""Requests that time the reference, as it is and as PyTorch runs it otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..profiling.event_overhead import event_overhead_ms
from ..timing.clock import Clock
from ..workers.channel import Message
from .baselines import Baselines
from .drawn_reference import DrawnReference


class TimeRequests:
    """The reference's times; each method serves the request of its name."""

    REQUESTS = ("time", "compile_ahead", "compile", "time_baseline", "overhead", "empty", "warm_up")

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference
        self._captured: int | None = None
        self._baselines: Baselines | None = None

    def time(self, samples: int, seed: int, graph: bool) -> Message:
        """Time the reference on inputs drawn from the seed."""
        reference = self._reference
        reference.clear()
        if self._captured != reference.models:  # a graph contains the weights' addresses
            reference.timed.clock.forget()
            self._captured = reference.models
        timed = reference.timed.time(0, reference.model, seed, samples, graph)
        reference.timed.last = None  # it is not compared
        return timed

    def compile_ahead(self, name: str, cache: str | None) -> Message:
        """Compile the reference in another way, as far as that needs no device."""
        return self._with_inputs(lambda *given: self._other_ways(cache).compile_ahead(name, *given))

    def compile(self, name: str, cache: str | None) -> Message:
        """Compile the reference in another way; the response's `error` gives the reason of a failure."""
        return self._with_inputs(lambda *given: self._other_ways(cache).compile(name, *given))

    def _with_inputs(self, compiled: Callable[[Any, Sequence[Any]], Message]) -> Message:
        """Return what is found with the model and its inputs, which are freed afterwards."""
        reference = self._reference
        assert reference.weights is not None
        reference.prepare(reference.weights)
        found = compiled(reference.model, reference.inputs)
        reference.release()
        return found

    def time_baseline(self, name: str, samples: int, seed: int, graph: bool) -> Message:
        """Time the reference as PyTorch runs it by default, or as it was compiled under this name."""
        reference = self._reference
        reference.timed.clock.graph = graph
        return self._other_ways().time(name, reference.model, reference.timed.feed(seed).next, samples)

    def overhead(self, graph: bool) -> Message:
        """Measure the overhead of events; this process cannot be used for anything else afterwards."""
        return {"overhead_ms": event_overhead_ms(Clock(self._reference.device, graph))}

    def empty(self) -> Message:
        """Measure the wall ms of an empty call beyond its time by events."""
        return {"empty_ms": self._reference.timed.clock.empty_ms()}

    def warm_up(self) -> Message:
        """Keep a GPU that was idle busy until its clocks have risen."""
        self._reference.timed.clock.warm_if_cold()
        return {}

    def _other_ways(self, cache: str | None = None) -> Baselines:
        if self._baselines is None:
            self._baselines = Baselines(
                self._reference.timed.clock, Path(cache) if cache else None, self._reference.arithmetic
            )
        return self._baselines
