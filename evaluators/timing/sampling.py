"""Times kernels interleaved until every median is precise enough."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...core import Measurement
from ..settings import Sampling
from ..workers.channel import Message

MIN_SAMPLES = 6
"""Fewer samples do not bound a median with 95 % confidence, however slow the kernel is."""
DECISIVE_SAMPLES = 40
"""Samples of each rival after which sampling ends, whether or not their medians can be told apart: up to a third of
them may be slow."""
DECISIVE_TIME = 4.0
"""A timing whose rivals cannot be told apart takes at most this many times as long as it would otherwise."""
PRUNE_AFTER = 5
"""Samples after which a kernel may be pruned, by their fastest: after a pause the first ones can take ten times as long
on a GPU."""
MIN_SAMPLE_MS = 1e-3
"""Lower bound of a sample in ms after the events' own time is subtracted; a kernel cannot be faster."""
Timer = Callable[[int], Message]
"""Takes that many samples; returns samples_ms, method, and perhaps cores and host_ms (see `clock.Samples`)."""


@dataclass(frozen=True)
class Timing:
    """The timing of one kernel."""

    measurement: Measurement
    cores: float
    """Cores that it kept busy; 0.0 where not measured."""
    pruned: bool = False
    """Whether it was pruned after the first samples."""

    def faster_half(self) -> Timing:
        """Return the timing without the slower half of its samples, in their order, where enough are left.

        Other processes only ever add time to a sample, so of a disturbed timing the fast samples are closest to what
        the kernel takes alone.
        """
        whole = self.measurement
        times = whole.samples_ms
        keep = (len(times) + 1) // 2
        if keep < MIN_SAMPLES:
            return self
        fast = sorted(sorted(range(len(times)), key=times.__getitem__)[:keep])
        method = f"{whole.method}, the faster half of {len(times)} disturbed samples"
        half = Measurement(samples_ms=tuple(times[i] for i in fast), method=method, warmup=whole.warmup)
        return replace(self, measurement=half)


def interleave(
    timers: Sequence[Timer],
    sampling: Sampling,
    prune_above_ms: float = math.inf,
    overhead_ms: float = 0.0,
    watch: Callable[[], object] = lambda: None,
    rivals: int = 0,
) -> list[Timing]:
    """Sample all kernels in interleaved chunks.

    Interleaving exposes all kernels to the same drift of clocks and of the machine's load: there are at least half of
    `sampling.chunks` chunks, however fast the kernels are. The order within a round changes every round. Where the
    first samples of the first kernel are slower than `prune_above_ms`, nothing is timed any further, and its timing is
    all there is. `overhead_ms` is subtracted from every sample (see `overhead`). `watch` is called after each chunk,
    when nothing is timed.

    The first of `rivals` kernels is compared with the fastest of the others: where their intervals overlap when time is
    up, sampling goes on (`_undecided`). The interval of six samples is their range, so one slow call would hide any
    difference. Intervals of equal kernels are apart so rarely (Schenker and Gentleman, The American Statistician 55,
    2001) that a look at them after each further round leaves the chance of that below the 2.5 % of a single interval.
    """
    start = time.perf_counter()
    everyone = [_Series(timer, sampling, overhead_ms) for timer in timers]
    if everyone[0].slower_than(prune_above_ms):
        return [everyone[0].timing(pruned=True)]
    order = list(everyone)
    least = max(1, sampling.chunks // 2) if len(everyone) > 1 else 1
    for turn in itertools.count(1):
        for series in order:
            series.extend()
            watch()
        order.reverse()
        enough = turn >= least and all(series.precise for series in order)
        late = time.perf_counter() - start >= sampling.seconds * max(1, len(everyone) / 2)
        if enough or (late and all(len(series.samples) >= MIN_SAMPLES for series in order)):
            break
    end = start + DECISIVE_TIME * (time.perf_counter() - start)
    for series in everyone:
        series.sampling = replace(sampling, min_samples=max(sampling.min_samples, DECISIVE_SAMPLES // 2))
    while _undecided(everyone[:rivals]) and time.perf_counter() < end:
        for series in order:
            series.extend()
            watch()
        order.reverse()
    return [series.timing() for series in everyone]


def _undecided(rivals: Sequence[_Series]) -> bool:
    """Return whether more samples may tell whether any of several kernels is faster than the first."""
    most = min(DECISIVE_SAMPLES, *(series.sampling.max_samples for series in rivals)) if rivals else 0
    if all(series.precise or len(series.samples) >= most for series in rivals):
        return False
    first, *others = (series.measurement for series in rivals)
    fastest = min(others, key=lambda found: found.median_ms, default=first)
    overlap = fastest.interval_ms[0] <= first.interval_ms[1] and first.interval_ms[0] <= fastest.interval_ms[1]
    return overlap and fastest is not first


class _Series:
    """The growing samples of one kernel."""

    def __init__(self, timer: Timer, sampling: Sampling, overhead_ms: float) -> None:
        self.timer = timer
        self.sampling = sampling
        self.overhead_ms = overhead_ms
        self.samples: list[float] = []
        self.cores: list[float] = []
        self.cost_s = 0.0
        """Seconds that a call of the last chunk took with all that belongs to it: fresh inputs, comparisons."""
        warm = self._timed(1)
        if _wall_ms(warm)[0] < sampling.chunk_s * 1e3:
            warm = self._timed(2)
        self.warmup = 1 + len(warm["samples_ms"])
        self.method: str = warm["method"]
        self.estimate_ms = self._own(min(warm["samples_ms"]))
        self.wall_ms = min(_wall_ms(warm))

    def slower_than(self, limit_ms: float) -> bool:
        """Return whether the first samples show that the kernel takes longer; the samples are kept."""
        if self.estimate_ms <= limit_ms:
            return False
        self._take(PRUNE_AFTER)
        return min(self.samples) > limit_ms

    def extend(self) -> None:
        room = self.sampling.max_samples - len(self.samples)
        count = int(self.sampling.chunk_s * 1e3 / max(self.wall_ms, 1e-3))
        # Fresh inputs of a gigabyte take ten times as long as a call; few calls are precise enough there.
        few = math.ceil(self.sampling.min_samples / max(1, self.sampling.chunks // 2))
        count = min(count, max(few, int(self.sampling.chunk_s / max(self.cost_s, 1e-6))))
        if room > 0:
            self._take(max(1, min(count, room, self.sampling.max_samples // self.sampling.chunks)))

    def _timed(self, count: int) -> Message:
        began = time.perf_counter()
        message = self.timer(count)
        self.cost_s = (time.perf_counter() - began) / max(1, len(message["samples_ms"]))
        return message

    def _take(self, count: int) -> None:
        message = self._timed(count)
        self.samples += [self._own(sample) for sample in message["samples_ms"]]
        if "cores" in message:
            self.cores.append(message["cores"])

    def _own(self, sample_ms: float) -> float:
        """Return the call's share of a sample."""
        if not self.overhead_ms:
            return max(sample_ms, 1e-6)
        return max(sample_ms - self.overhead_ms, MIN_SAMPLE_MS)

    @property
    def precise(self) -> bool:
        if len(self.samples) < self.sampling.min_samples:
            return False
        return len(self.samples) >= self.sampling.max_samples or self.measurement.precision <= self.sampling.precision

    @property
    def measurement(self) -> Measurement:
        method = f"{self.method}, less {self.overhead_ms * 1e3:.1f} us" if self.overhead_ms else self.method
        return Measurement(samples_ms=tuple(self.samples), method=method, warmup=self.warmup)

    def timing(self, pruned: bool = False) -> Timing:
        cores = statistics.median(self.cores) if self.cores else 0.0
        return Timing(self.measurement, cores, pruned)


def _wall_ms(message: Message) -> list[float]:
    """Return the wall ms of each call, as far as known."""
    found: list[float] = message.get("host_ms") or message["samples_ms"]
    return found
