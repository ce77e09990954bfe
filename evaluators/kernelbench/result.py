"""KernelBench's result for one kernel, under KernelBench's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ...core import Evaluation, Status

NOT_TIMED = -1.0
"""KernelBench's placeholder for a time that was not measured."""
THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
"""The speedups p for which its analysis prints fast_p."""


class TimingStats(BaseModel):
    """Times of single calls in milliseconds, each rounded to three digits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: float = Field(ge=0, allow_inf_nan=False)
    std: float = Field(ge=0, allow_inf_nan=False)
    """Standard deviation of the population, not of a sample."""
    min: float = Field(ge=0, allow_inf_nan=False)
    max: float = Field(ge=0, allow_inf_nan=False)
    num_trials: int = Field(gt=0)
    hardware: str
    device: str


class KernelBenchResult(BaseModel):
    """The result for one kernel; `runtime` and `ref_runtime` are means in milliseconds, None where not timed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    compiled: bool = False
    correctness: bool = False
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Errors, and the device: the keys and texts are KernelBench's."""
    runtime: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    runtime_stats: TimingStats | None = None
    ref_runtime: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    ref_runtime_stats: TimingStats | None = None
    seeds: tuple[int, ...] = ()
    """One per check that was started; KernelBench does not store them."""

    @property
    def speedup(self) -> float | None:
        """The reference's mean time over the kernel's, for a correct kernel."""
        if not self.correctness or not self.runtime or self.ref_runtime is None:
            return None
        return self.ref_runtime / self.runtime

    @property
    def reason(self) -> str:
        """The failure in one line; '' for a correct kernel that was timed."""
        for key in _ERRORS:
            if key in self.metadata:
                return " ".join(str(self.metadata[key]).split())
        return ""

    def record(self, sample_id: int) -> dict[str, Any]:
        """Return the entry of eval_results.json."""
        return {
            "sample_id": sample_id,
            "compiled": self.compiled,
            "correctness": self.correctness,
            "metadata": self.metadata,
            "runtime": NOT_TIMED if self.runtime is None else self.runtime,
            "runtime_stats": self.runtime_stats.model_dump() if self.runtime_stats else {},
        }


_ERRORS = (
    "compilation_error", "cuda_error", "other_error", "runtime_error", "correctness_issue", "error_during_performance",
)  # fmt: skip


def larger_tolerance(strict: Evaluation, tolerance: float | None) -> str:
    """Return why KernelBench accepts what is wrong for the problem's own inputs already; '' where it is not.

    `tolerance` is KernelBench's, absolute and relative.
    """
    found = strict.correctness
    if strict.status is not Status.WRONG_VALUE or found is None or found.distributions or tolerance is None:
        return ""
    error, absolute = found.own_error, found.absolute_tolerance
    if error <= tolerance:
        why = f"the error of {error:.2g} is below its absolute tolerance of {tolerance:g}"
    else:
        why = f"it allows {tolerance:g} and {tolerance:g} of the value"
    ours = found.tolerance if absolute is None else absolute
    return f"{why}, where strict allows {ours:.2g} and {found.tolerance:.2g} of the value"


def fast_p(speedups: Sequence[float | None], p: float) -> float:
    """Return the share of problems whose kernel is correct and more than `p` times as fast as the reference.

    `speedups` has one value per problem, None for a wrong or untimed kernel. Source: the KernelBench paper
    (arXiv 2502.10517), section 3.
    """
    return sum(speedup is not None and speedup > p for speedup in speedups) / len(speedups) if speedups else 0.0
