"""Timing candidate and reference in turn until both medians are known well enough."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from ..core import Measurement
from .channel import Message
from .limits import Sampling

FEWEST = 6
"""Fewer samples bound no median with 95 % confidence, however slow the kernel is."""
Timer = Callable[[int], Message]
"""Takes that many samples; answers samples_ms, method and perhaps cores."""


def take_turns(candidate: Timer, reference: Timer, sampling: Sampling) -> tuple[Measurement, Measurement, float]:
    """Samples of both in alternating chunks, and how many cores the candidate kept busy.

    Taking turns lets both see the same drift of clocks and of the machine's other load. The order
    within a round changes every round.
    """
    first, second = _Series(candidate, sampling), _Series(reference, sampling)
    start = time.perf_counter()
    order = [first, second]
    while True:
        for series in order:
            series.extend()
        order.reverse()
        enough = all(series.precise for series in order)
        late = time.perf_counter() - start >= sampling.seconds
        if enough or (late and all(len(series.samples) >= FEWEST for series in order)):
            break
    cores = statistics.median(first.cores) if first.cores else 0.0
    return first.measurement(), second.measurement(), cores


class _Series:
    """The growing samples of one side."""

    def __init__(self, timer: Timer, sampling: Sampling) -> None:
        self.timer = timer
        self.sampling = sampling
        self.samples: list[float] = []
        self.cores: list[float] = []
        warm = timer(1)
        if warm["samples_ms"][0] < sampling.chunk_s * 1e3:
            warm = timer(2)
        self.warmup = 1 + len(warm["samples_ms"])
        self.method: str = warm["method"]
        self.estimate_ms = min(warm["samples_ms"])

    def extend(self) -> None:
        room = self.sampling.max_samples - len(self.samples)
        count = int(self.sampling.chunk_s * 1e3 / max(self.estimate_ms, 1e-3))
        if room <= 0:
            return
        message = self.timer(max(1, min(count, room, 500)))
        self.samples += [max(sample, 1e-6) for sample in message["samples_ms"]]
        if "cores" in message:
            self.cores.append(message["cores"])

    @property
    def precise(self) -> bool:
        if len(self.samples) < self.sampling.min_samples:
            return False
        return len(self.samples) >= self.sampling.max_samples or self.measurement().precision <= self.sampling.precision

    def measurement(self) -> Measurement:
        return Measurement(samples_ms=tuple(self.samples), method=self.method, warmup=self.warmup)
