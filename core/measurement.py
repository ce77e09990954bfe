"""Timings: raw samples and statistics."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

BATCHES = 8
"""Number of batches of samples for the interval, the number of interleaved chunks of a timing."""
_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365)
"""95 % quantiles of Student's t distribution with 1 to 7 degrees of freedom."""

Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Measurement(BaseModel):
    """Samples of the time of one call in milliseconds, in the order taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    samples_ms: tuple[Milliseconds, ...] = Field(min_length=1)
    method: str = "wall clock"
    warmup: int = Field(default=0, ge=0)

    @cached_property
    def _sorted(self) -> list[float]:
        return sorted(self.samples_ms)

    @property
    def median_ms(self) -> float:
        """Median of the samples in milliseconds."""
        return statistics.median(self._sorted)

    @property
    def interval_ms(self) -> tuple[float, float]:
        """A 95 % confidence interval of the median, from order statistics.

        It is distribution-free: for independent samples the number below the median is binomial (n, 1/2), here in its
        normal approximation (Conover, Practical Nonparametric Statistics, section 3.2). Successive samples are
        correlated, as clocks and caches drift. So the larger variance counts: that one, or the variance of the number
        between `BATCHES` batches (batch means: Law, Simulation Modeling and Analysis, section 9.5.3). A drift that is
        slower than the whole timing does not show.
        """
        return self._between(max(self._independent, self._batched))

    @property
    def precision(self) -> float:
        """Half the relative width of the interval for independent samples: 0.01 means within 1 %.

        More samples always reduce it, so it tells when enough were taken.
        """
        low, high = self._between(self._independent)
        return (high - low) / 2 / self.median_ms

    @property
    def _independent(self) -> float:
        """Half width of the interval in ranks, for independent samples."""
        return 1.96 * math.sqrt(len(self._sorted)) / 2

    @cached_property
    def _batched(self) -> float:
        """Half width of the interval in ranks, by the variance between batches."""
        count, middle = len(self.samples_ms), self.median_ms
        batches = min(BATCHES, count // 2)
        if batches < 2:
            return 0.0
        ends = [count * number // batches for number in range(batches + 1)]
        below = [(item > middle) - (item < middle) for item in self.samples_ms]
        shares = [statistics.fmean(below[low:high]) / 2 for low, high in itertools.pairwise(ends)]
        return _QUANTILES[batches - 2] * count * statistics.stdev(shares) / math.sqrt(batches)

    def _between(self, half: float) -> tuple[float, float]:
        """Return the samples that many ranks below and above the median."""
        n = len(self._sorted)
        low = max(0, math.floor(n / 2 - half))
        high = min(n - 1, math.ceil(n / 2 + half) - 1)
        return self._sorted[low], self._sorted[max(low, high)]


class Speedup(BaseModel):
    """A speedup over the reference, with the interval that follows from the intervals of both medians."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ratio: float = Field(gt=0)
    low: float = Field(gt=0)
    high: float = Field(gt=0)

    @classmethod
    def between(cls, reference: Measurement, candidate: Measurement) -> Speedup:
        """Return the speedup of a candidate over the reference, with its 95 % interval."""
        reference_low, reference_high = reference.interval_ms
        candidate_low, candidate_high = candidate.interval_ms
        return cls(
            ratio=reference.median_ms / candidate.median_ms,
            low=reference_low / candidate_high,
            high=reference_high / candidate_low,
        )

    @classmethod
    def spanning(cls, found: Sequence[Speedup]) -> Speedup:
        """Return the speedup of several runs: the median of theirs, and the union of their intervals."""
        return cls(
            ratio=statistics.median(item.ratio for item in found),
            low=min(item.low for item in found),
            high=max(item.high for item in found),
        )

    @classmethod
    def of_processes(cls, found: Sequence[Speedup]) -> Speedup:
        """Return the speedup over pairs of fresh processes, which differ among themselves by more than their samples.

        It is the median of theirs. The interval has theirs, and Student's 95 % interval of their mean logarithm. Raises
        `ValueError` for fewer than two pairs.
        """
        if len(found) < 2:
            raise ValueError("one pair of processes does not show how much processes differ")
        whole, logs = cls.spanning(found), [math.log(item.ratio) for item in found]
        mean, error = statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
        half = _QUANTILES[min(len(logs), BATCHES) - 2] * error
        low, high = min(whole.low, math.exp(mean - half)), max(whole.high, math.exp(mean + half))
        return cls(ratio=whole.ratio, low=low, high=high)

    def __str__(self) -> str:
        return f"{self.ratio:.3f}x [{self.low:.3f}, {self.high:.3f}]"
