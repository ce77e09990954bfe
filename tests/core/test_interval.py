"""How often the interval of a median holds it, and two runs' intervals overlap, where samples drift."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator

import pytest
from kernelwright.core import Config, Measurement, Speedup
from kernelwright.core.workload_rows import merged

from ..fakes import evaluation, kernel

RUNS = 300
SPREAD = 0.02


def independent(rng: random.Random, count: int) -> Iterator[float]:
    """Each sample by itself."""
    return (math.exp(SPREAD * rng.gauss(0, 1)) for _ in range(count))


def alike(rng: random.Random, count: int, kept: float = 0.9) -> Iterator[float]:
    """Each sample keeps most of how the one before it differed: a clock that drifts."""
    state = rng.gauss(0, 1)
    for _ in range(count):
        state = kept * state + math.sqrt(1 - kept**2) * rng.gauss(0, 1)
        yield math.exp(SPREAD * state)


def in_chunks(rng: random.Random, count: int) -> Iterator[float]:
    """Each chunk of samples has other inputs, at other addresses, and what follows from that."""
    for number in range(count):
        if number % max(1, count // 8) == 0:
            offset = SPREAD * rng.gauss(0, 1)
        yield math.exp(offset + SPREAD / 4 * rng.gauss(0, 1))


@pytest.mark.parametrize(
    ("samples", "count", "covered"),
    [
        (independent, 62, 0.93), (independent, 200, 0.93), (independent, 500, 0.93),
        (alike, 62, 0.77), (alike, 200, 0.88), (alike, 500, 0.90),
        (in_chunks, 62, 0.93), (in_chunks, 200, 0.93), (in_chunks, 500, 0.93),
    ],
)  # fmt: skip
def test_it_holds_the_median_and_two_of_them_overlap(
    samples: Callable[[random.Random, int], Iterator[float]], count: int, covered: float
) -> None:
    """Of 62 samples that keep nine tenths of each other six are worth something: the interval is too short there."""
    rng = random.Random(count)
    found = [Measurement(samples_ms=tuple(samples(rng, count))).interval_ms for _ in range(RUNS)]
    assert sum(low <= 1.0 <= high for low, high in found) / RUNS >= covered
    overlapping = sum(first[0] <= second[1] and second[0] <= first[1] for first, second in itertools.pairwise(found))
    assert overlapping / (RUNS - 1) >= (0.95 if covered > 0.8 else 0.9)


def test_a_ratio_of_what_was_timed_interleaved_holds_beside_a_drift_of_both() -> None:
    """A machine that slows by a tenth within the timing slows both."""
    rng = random.Random(0)

    def run() -> Speedup:
        slower = [math.exp(0.1 * number / 200) for number in range(200)]
        times = [tuple(scale * value for value in alike(rng, 200, 0.8)) for scale in (3.0, 1.0)]
        drifting = [tuple(map(math.prod, zip(time, slower, strict=True))) for time in times]
        start, best = (Measurement(samples_ms=pair) for pair in drifting)
        return Speedup.between(start, best)

    found = [run() for _ in range(100)]
    assert sum(speedup.low <= 3.0 <= speedup.high for speedup in found) >= 95
    assert sum(a.low <= b.high and b.low <= a.high for a, b in itertools.pairwise(found)) >= 95


def test_what_drifts_needs_no_more_samples_and_has_a_wider_interval() -> None:
    still = Measurement(samples_ms=tuple(independent(random.Random(1), 200)))
    moving = Measurement(samples_ms=tuple(sorted(still.samples_ms)))
    assert moving.precision == still.precision
    assert moving.interval_ms[1] - moving.interval_ms[0] > 3 * (still.interval_ms[1] - still.interval_ms[0])


def test_several_workloads_drift_as_the_one_that_does() -> None:
    rng = random.Random(2)
    still, moving = tuple(independent(rng, 250)), tuple(sorted(independent(rng, 200)))
    rows = {
        name: evaluation(kernel(1.0), Config(), 1.0).model_copy(update={"measurement": Measurement(samples_ms=pair)})
        for name, pair in (("still", still), ("moving", moving))
    }
    found, alone = merged(rows).measurement, merged({"still": rows["still"]}).measurement
    assert found is not None and alone is not None
    assert alone.interval_ms == rows["still"].measurement.interval_ms  # type: ignore[union-attr]
    assert len(found.samples_ms) == 200
    assert list(found.samples_ms) == sorted(found.samples_ms), "in the order of the one that drifts"
