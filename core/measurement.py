"""Timings: raw samples and statistics."""

from __future__ import annotations

import math
import statistics
from functools import cached_property
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

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

        Distribution-free: the number of samples below the median is binomial (n, 1/2), here in
        its normal approximation (Conover, Practical Nonparametric Statistics, section 3.2).
        """
        n = len(self._sorted)
        half = 1.96 * math.sqrt(n) / 2
        low = max(0, math.floor(n / 2 - half))
        high = min(n - 1, math.ceil(n / 2 + half) - 1)
        return self._sorted[low], self._sorted[max(low, high)]

    @property
    def precision(self) -> float:
        """Half the width of the interval over the median: 0.01 means within 1 %."""
        low, high = self.interval_ms
        return (high - low) / 2 / self.median_ms


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
