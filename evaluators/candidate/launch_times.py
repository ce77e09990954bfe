"""Times the launches of calls, each kernel's by its name, for searches per launch.

On a CPU a launch ends when it returns. On a GPU there is an event before and after each, and the device is kept busy
until the host has launched all of a call: otherwise events would show the host's work.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from ..guards.own_kernels import covered
from ..languages.base import LanguageSupport
from ..timing.clock import Clock

CALLS, CALLS_MS = 7, 60.0
"""Timed calls at most, and the milliseconds after which fewer are enough."""
LEAST_CALLS = 3
AHEAD = 2.0
"""The device is kept busy for so many times what the host takes to launch a call."""
MOST_FLUSHES = 200

Call = Callable[[], object]
Mark = Callable[[], Any]


class LaunchTimes:
    """Times launches within calls; create it before a candidate's code is loaded."""

    def __init__(self, device: str, clock: Clock, languages: Sequence[LanguageSupport]) -> None:
        self._clock = clock
        self._languages = languages
        self._mark: Mark = time.perf_counter
        self._elapsed_ms: Callable[[Any, Any], float] = lambda start, stop: (stop - start) * 1e3
        self._on_cpu = not device.startswith("cuda")
        if not self._on_cpu:
            import torch

            base: Any = torch._C._CudaEventBase
            record, elapsed, stream = base.record, base.elapsed_time, torch.cuda.current_stream(device)

            def mark() -> Any:
                event = torch.cuda.Event(enable_timing=True)
                record(event, stream)
                return event

            self._mark, self._elapsed_ms = mark, lambda start, stop: float(elapsed(start, stop))

    def of(self, call: Call) -> dict[str, list[float]]:
        """Return the milliseconds of each kernel's launches in some calls."""
        flushes = self._flushes(call)
        found: defaultdict[str, list[float]] = defaultdict(list)
        start = time.perf_counter()
        for number in range(CALLS):
            if number >= LEAST_CALLS and (time.perf_counter() - start) * 1e3 > CALLS_MS:
                break
            for name, spent_ms in self._once(call, flushes).items():
                found[name].append(spent_ms)
        return dict(found)

    def _flushes(self, call: Call) -> int:
        """Return how many flushes of the cache keep a GPU busy while the host launches a call; make calls."""
        if self._clock.flush is None:
            return 0
        self._clock.warm_if_cold()
        self._once(call, 1)
        flush_ms, call_ms = self._host_ms(self._clock.flush, wait=True), self._host_ms(call)
        return min(MOST_FLUSHES, 1 + math.ceil(AHEAD * call_ms / max(flush_ms, 1e-3)))

    def _host_ms(self, call: Call, wait: bool = False) -> float:
        self._clock.wait()
        start = time.perf_counter()
        call()
        if wait:
            self._clock.wait()
        return (time.perf_counter() - start) * 1e3

    def _once(self, call: Call, flushes: int) -> dict[str, float]:
        marks: defaultdict[str, list[tuple[Any, Any]]] = defaultdict(list)

        def counted(name: str, launch: Callable[..., Any]) -> Callable[..., Any]:
            def timed(*args: Any, **kwargs: Any) -> Any:
                start = self._mark()
                try:
                    return launch(*args, **kwargs)
                finally:
                    marks[name].append((start, self._mark()))

            return timed

        self._clock.wait()
        for _ in range(flushes):
            self._clock.flush()  # type: ignore[misc]
        with contextlib.ExitStack() as replaced:
            for support in self._languages:
                replaced.enter_context(support.counting(counted))
            call()
        self._clock.wait()
        if self._on_cpu:  # threads may launch at the same time
            return {name: covered(intervals) * 1e3 for name, intervals in marks.items()}
        return {name: sum(self._elapsed_ms(*pair) for pair in pairs) for name, pairs in marks.items()}
