"""Kernels whose difference has to be known are timed until it is, with a clock and calls that the test holds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, cycle
from types import SimpleNamespace

import pytest
from kernelwright.core import Speedup
from kernelwright.evaluators.settings import Sampling
from kernelwright.evaluators.timing import sampling
from kernelwright.evaluators.timing.quiet import QuietTimer
from kernelwright.evaluators.timing.sampling import DECISIVE_SAMPLES, DECISIVE_TIME, MIN_SAMPLES, Timer, interleave
from kernelwright.evaluators.workers.channel import Message

QUICK = Sampling().quick()
# Of a run on two cores: a kernel, its start and PyTorch, each with three calls before. The first of a process are slow.
START = [[6.85, 15.13, 6.0], [8.81, 3.37, 3.39, 3.32, 3.34, 3.32, 3.71, 3.38, 3.64, 3.5]]
KERNEL = [[0.97, 3.03, 3.27], [1.12, 5.87, 1.08, 0.81, 1.07, 1.2, 0.84, 0.96, 1.17, 1.01]]
TORCH = [[1.45, 1.42, 1.45], [1.16, 1.0, 1.08, 0.96, 1.04, 0.95, 1.1, 1.19, 1.13, 1.05]]


class Calls:
    """Calls of several kernels on a clock that stands still between them. Each chunk takes 50 ms beside its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(sampling, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def taking(self, times_ms: Iterator[float]) -> Timer:
        """Return the timer of a kernel whose calls take these times."""

        def take(samples: int) -> Message:
            taken = [next(times_ms) for _ in range(samples)]
            self.now += 0.05 + sum(taken) / 1e3
            return {"samples_ms": taken, "method": "made up"}

        return take

    def drawn(self, base_ms: float, slow: float, seed: int) -> Timer:
        """Return the timer of a kernel; this share of its calls is disturbed, and takes up to eight times as long."""
        rng = random.Random(seed)

        def times() -> Iterator[float]:
            while True:
                disturbed = rng.uniform(2, 8) if rng.random() < slow else 1.0
                yield base_ms * (1 + 0.15 * rng.random()) * disturbed

        return self.taking(times())


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def recorded(calls: Calls) -> list[Timer]:
    return [calls.taking(chain(first, cycle(later))) for first, later in (START, KERNEL, TORCH)]


def gain(timers: Sequence[Timer], wanted: Sampling, rivals: int) -> tuple[Speedup, int]:
    """The second kernel's over the first, and how many samples showed it."""
    start, found, *_ = interleave(timers, wanted, rivals=rivals)
    return Speedup.between(start.measurement, found.measurement), len(found.measurement.samples_ms)


def test_one_slow_call_of_six_does_not_hide_a_gain(calls: Calls) -> None:
    alone, few = gain(recorded(calls), QUICK, rivals=0)
    assert few == MIN_SAMPLES and alone.low < 1 < alone.ratio, "the interval of six samples is their range"
    found, more = gain(recorded(calls), QUICK, rivals=2)
    assert found.low > 2 and found.ratio == pytest.approx(3.2, abs=0.2)
    assert more <= DECISIVE_SAMPLES / 2


def test_what_is_decided_takes_no_more_samples(calls: Calls) -> None:
    def timers() -> list[Timer]:
        return [calls.drawn(base, 0.0, seed) for seed, base in enumerate((3.0, 1.0, 1.0))]

    assert gain(timers(), QUICK, rivals=2) == gain(timers(), QUICK, rivals=0)
    lone = [calls.drawn(1.0, 0.3, 1), calls.drawn(1.0, 0.3, 2)]
    assert len(interleave(lone, QUICK, rivals=1)[0].measurement.samples_ms) == MIN_SAMPLES


@pytest.mark.parametrize("slow", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("wanted", [QUICK, Sampling()], ids=["quick", "in full"])
def test_equal_kernels_stay_equal(calls: Calls, slow: float, wanted: Sampling) -> None:
    """However often the intervals are looked at: an interval for one look alone is wrong in 2.5 % on either side."""
    runs = 200
    found = [
        gain([calls.drawn(1.0, slow, 3 * run + kernel) for kernel in range(3)], wanted, rivals=2) for run in range(runs)
    ]
    assert sum(ratio.low > 1 for ratio, _ in found) <= 0.025 * runs
    assert sum(ratio.high < 1 for ratio, _ in found) <= 0.025 * runs
    assert max(samples for _, samples in found) < max(DECISIVE_SAMPLES + 12, 100), "sampling ends"


@pytest.mark.parametrize("slow", [0.1, 0.2])
def test_a_gain_is_seen_beside_other_work(calls: Calls, slow: float) -> None:
    def seen(rivals: int) -> int:
        timers = (
            [calls.drawn(base, slow, 3 * run + i) for i, base in enumerate((3.4, 1.0, 1.0))] for run in range(100)
        )
        return sum(gain(each, QUICK, rivals)[0].low > 1 for each in timers)

    assert seen(rivals=0) < 75
    assert seen(rivals=2) > 97


def test_slow_kernels_that_stay_undecided_take_four_times_as_long(calls: Calls) -> None:
    def seconds(rivals: int) -> float:
        began = calls.now
        interleave([calls.drawn(900.0, 0.3, seed) for seed in range(3)], Sampling(), rivals=rivals)
        return calls.now - began

    without, longest = seconds(rivals=0), 3 * 8 * 1.1
    assert without < seconds(rivals=2) <= DECISIVE_TIME * without + longest


def test_the_timer_says_which_kernels_are_rivals(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    asleep: Callable[[object], None] = lambda processes: None  # noqa: E731
    monkeypatch.setattr("kernelwright.evaluators.timing.quiet.wait_until_asleep", asleep)
    (start, found, _), _ = QuietTimer(on_cpu=True).time(recorded(calls), (), (), QUICK, rivals=2)
    assert Speedup.between(start.measurement, found.measurement).low > 1
