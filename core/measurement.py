"""Timings: raw samples and statistics."""

from __future__ import annotations

import itertools
import math
import statistics
from functools import cached_property
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

BATCHES = 8
"""Into which the samples are divided for the interval: as many as a timing has chunks, each interleaved with others."""
_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365)
"""Of Student's t distribution, for 95 %, with 1 to 7 degrees of freedom."""

Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Measurement(BaseModel):
    """The time of one call: samples in milliseconds, one per call, in the order taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    samples_ms: tuple[Milliseconds, ...] = Field(min_length=1)
    method: str = "wall clock"
    warmup: int = Field(default=0, ge=0)

    @cached_property
    def _sorted(self) -> list[float]:
        return sorted(self.samples_ms)

    @property
    def median_ms(self) -> float:
        """The median of the samples, in milliseconds."""
        return statistics.median(self._sorted)

    @property
    def interval_ms(self) -> tuple[float, float]:
        """A 95 % confidence interval of the median, from order statistics.

        Distribution-free: of independent samples the number below the median is binomial (n, 1/2), here in its normal
        approximation (Conover, Practical Nonparametric Statistics, section 3.2). Samples that follow each other are
        alike, as clocks and caches drift: where the number below the median varies more between `BATCHES` of them than
        that, it is taken to vary as much (batch means: Law, Simulation Modeling and Analysis, section 9.5.3). A drift
        that is slower than the whole timing does not show in it.
        """
        return self._between(max(self._independent, self._batched))

    @property
    def precision(self) -> float:
        """Half the width over the median of what the interval is if samples are independent: 0.01 means within 1 %.

        More samples of the same minute make this one smaller, so it says when enough were taken.
        """
        low, high = self._between(self._independent)
        return (high - low) / 2 / self.median_ms

    @property
    def _independent(self) -> float:
        """How many ranks from the median the interval reaches, of independent samples."""
        return 1.96 * math.sqrt(len(self._sorted)) / 2

    @cached_property
    def _batched(self) -> float:
        """The same by how much the number below the median varies between batches of samples."""
        count, middle = len(self.samples_ms), self.median_ms
        batches = min(BATCHES, count // 2)
        if batches < 2:
            return 0.0
        ends = [count * number // batches for number in range(batches + 1)]
        below = [(item > middle) - (item < middle) for item in self.samples_ms]
        shares = [statistics.fmean(below[low:high]) / 2 for low, high in itertools.pairwise(ends)]
        return _QUANTILES[batches - 2] * count * statistics.stdev(shares) / math.sqrt(batches)

    def _between(self, half: float) -> tuple[float, float]:
        """Return the samples that are so many ranks below and above the median."""
        n = len(self._sorted)
        low = max(0, math.floor(n / 2 - half))
        high = min(n - 1, math.ceil(n / 2 + half) - 1)
        return self._sorted[low], self._sorted[max(low, high)]


class Speedup(BaseModel):
    """The speedup over the reference, with the interval that follows from both medians' intervals."""

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

    def __str__(self) -> str:
        return f"{self.ratio:.3f}x [{self.low:.3f}, {self.high:.3f}]"
