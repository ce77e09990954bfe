"""Sampling and contention, with clocks that the test holds."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Measurement
from kernelwright.evaluators.settings import Sampling, SearchSettings
from kernelwright.evaluators.timing.contention import LoadMeter, tolerated_cores
from kernelwright.evaluators.timing.sampling import PRUNE_AFTER, Timing, interleave
from kernelwright.evaluators.workers.channel import Message


class Clockwork:
    """A timer whose calls take `base_ms`, give or take `noise`."""

    def __init__(self, name: str, calls: list[str], base_ms: float, noise: float, seed: int) -> None:
        self.name, self.calls, self.base_ms, self.noise = name, calls, base_ms, noise
        self.rng = random.Random(seed)

    def __call__(self, samples: int) -> Message:
        self.calls.append(self.name)
        times = [self.base_ms * (1 + self.noise * self.rng.random()) for _ in range(samples)]
        return {"samples_ms": times, "cores": 1.5, "method": "clockwork"}


def test_sides_take_turns_and_swap_the_first_place() -> None:
    calls: list[str] = []
    sampling = Sampling(precision=1e-6, seconds=60, max_samples=40, chunk_s=0.01)
    first, second = interleave([Clockwork("a", calls, 1.0, 0.5, 1), Clockwork("b", calls, 2.0, 0.5, 2)], sampling)
    assert calls[:4] == ["a", "a", "b", "b"]  # each warms up
    assert calls[4:10] == ["a", "b", "b", "a", "a", "b"]
    assert first.measurement.median_ms < second.measurement.median_ms
    assert first.measurement.warmup == 3
    assert first.cores == 1.5


def test_fast_kernels_take_turns_too() -> None:
    """However many calls fit into a chunk, and however precise the first chunk is."""
    for noise in (0.5, 1e-6):
        calls: list[str] = []
        interleave([Clockwork("a", calls, 0.01, noise, 1), Clockwork("b", calls, 0.02, noise, 2)], Sampling())
        assert calls[4:12] == ["a", "b", "b", "a", "a", "b", "b", "a"]


def test_stops_when_both_medians_are_precise() -> None:
    calls: list[str] = []
    sampling = Sampling(precision=0.01, seconds=60, min_samples=20)
    start = time.monotonic()
    first, second = interleave([Clockwork("a", calls, 5.0, 0.001, 1), Clockwork("b", calls, 5.0, 0.001, 2)], sampling)
    assert time.monotonic() - start < 5
    assert first.measurement.precision <= 0.01
    assert second.measurement.precision <= 0.01
    assert len(first.measurement.samples_ms) >= 20


def test_a_slow_kernel_is_pruned_after_a_few_samples() -> None:
    calls: list[str] = []
    sampling = Sampling(precision=1e-6, seconds=60, max_samples=40, chunk_s=0.01)
    (slow,) = interleave([Clockwork("a", calls, 5.0, 0.5, 1)], sampling, prune_above_ms=4.0)
    assert slow.pruned and len(slow.measurement.samples_ms) == PRUNE_AFTER
    (right,) = interleave([Clockwork("a", calls, 5.0, 0.5, 1)], sampling, prune_above_ms=8.0)
    assert not right.pruned and len(right.measurement.samples_ms) == 40


def test_a_kernel_is_not_pruned_for_slow_first_samples() -> None:
    """On a GPU the first calls after a pause can take ten times as long."""
    times = iter([9.0, 9.0, 9.0, 9.0, 9.0, 6.0, 1.0])

    def timer(samples: int) -> Message:
        return {"samples_ms": [next(times, 1.0) for _ in range(samples)], "method": "clockwork"}

    (timing,) = interleave([timer], Sampling(seconds=60, max_samples=40), prune_above_ms=2.0)
    assert not timing.pruned and timing.measurement.median_ms == 1.0


def test_a_disturbed_timing_keeps_its_faster_half() -> None:
    """Half of the calls shared their core with another process."""
    samples = tuple(1.0 + 0.01 * i if i % 2 else 2.0 + i for i in range(20))
    half = Timing(Measurement(samples_ms=samples, method="wall clock", warmup=3), cores=1.0).faster_half()
    assert half.measurement.samples_ms == samples[1::2]
    assert half.measurement.median_ms == pytest.approx(1.1)
    assert half.measurement.method == "wall clock, the faster half of 20 disturbed samples"
    assert (half.measurement.warmup, half.cores) == (3, 1.0)
    few = Timing(Measurement(samples_ms=samples[:10]), cores=1.0)
    assert few.faster_half() is few


def test_load_of_others_is_seen_and_ours_is_not() -> None:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        all_else, others = LoadMeter(), LoadMeter()
        start, before = time.monotonic(), seconds_used(process.pid)
        all_else.start([])
        others.start([process.pid])  # in the same time, so that whatever else runs counts in both
        while (used := seconds_used(process.pid) - before) < 0.5:  # on a busy machine that takes longer
            time.sleep(0.05)
        foreign, ours = all_else.other_cores(), others.other_cores()
        cores = used / (time.monotonic() - start)
    finally:
        process.kill()
        process.wait()
    assert foreign is not None
    assert ours is not None
    assert foreign > 0.7 * cores
    assert ours < foreign - 0.7 * cores
    assert tolerated_cores() >= 0.15


def seconds_used(process: int) -> float:
    """Of a processor."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_search_samples_in_few_chunks() -> None:
    """Each begins with inputs of its own, which take longer than the calls of a small kernel."""
    asked: list[int] = []

    def timer(samples: int) -> Message:
        asked.append(samples)
        return {"samples_ms": [random.random() for _ in range(samples)], "host_ms": [0.4] * samples, "method": "a"}

    sampling = replace(SearchSettings().sampling, precision=1e-9, seconds=60)
    (timing,) = interleave([timer], sampling, prune_above_ms=2.0)
    assert asked == [1, 2, 25, 25]
    assert len(timing.measurement.samples_ms) == 50


def test_what_events_add_is_taken_off_every_sample() -> None:
    timers = [Clockwork("a", [], 0.014, 0.0, 1), Clockwork("b", [], 0.0041, 0.0, 2)]
    first, second = interleave(timers, Sampling(), overhead_ms=0.004)
    assert first.measurement.median_ms == pytest.approx(0.010)
    assert second.measurement.median_ms == pytest.approx(0.001)  # no kernel takes less
    assert first.measurement.method == "clockwork, less 4.0 us"


def test_chunks_are_as_long_as_they_keep_us_waiting() -> None:
    """A flush and new inputs take longer than a small kernel."""
    asked: list[int] = []

    def timer(samples: int) -> Message:
        asked.append(samples)
        return {"samples_ms": [0.01] * samples, "host_ms": [5.0] * samples, "method": "clockwork"}

    seen: list[int] = []
    interleave([timer], Sampling(chunk_s=0.05), watch=lambda: seen.append(len(asked)))
    assert set(asked[2:]) == {10}
    assert seen == list(range(3, len(asked) + 1))  # after every chunk


def test_calls_whose_inputs_take_long_to_make_are_few() -> None:
    """A chunk's length counts what a call waits for, too; a precise median needs no more than the least samples."""
    counts: list[int] = []

    def slowly_prepared(samples: int) -> Message:
        counts.append(samples)
        time.sleep(0.004 * samples)
        return {"samples_ms": [0.1] * samples, "method": "clockwork"}

    (timing,) = interleave([slowly_prepared], Sampling(min_samples=20, chunks=8, chunk_s=0.01))
    assert counts == [1, 2, 5, 5, 5, 5]
    assert len(timing.measurement.samples_ms) == 20
