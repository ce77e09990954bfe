"""The types of retrieval: worked examples, queries and hits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .errors import OptionError
from .evaluation import Evaluation
from .language import Language, Target
from .measurement import Speedup

BOTTLENECKS = ("memory", "compute", "parallelism", "algorithm")

TECHNIQUES = {
    "shared-memory": "tiles are staged in shared memory, so that the threads of a block share each load",
    "pipelining": "the loads of the next iterations are in flight while the present one computes, over several buffers",
    "tensor-cores": "matrix products run on the tensor cores with matrix multiply-accumulate instructions",
    "swizzle": "the order of blocks, or the layout in shared memory, is permuted for reuse or against bank conflicts",
    "vectorized-access": "each thread or loop moves several neighbouring elements with one wide instruction",
    "fusion": "what ran as several kernels runs as one, so that intermediate results never go through memory",
    "split-k": "the long inner dimension of a product is split over blocks, whose partial sums are added",
    "persistent-grid": "as many blocks as the device can run at once each loop over many tiles",
    "online-reduction": "running maximum, sum or moments are corrected while the data streams by once",
    "coalescing": "neighbouring threads touch neighbouring addresses",
    "register-tiling": "each thread keeps a tile of results in registers and uses each loaded value several times",
    "two-stage-reduction": "many blocks write partial results, a second small kernel combines them",
    "multi-row-blocks": "one block handles several short rows",
    "tma": "the tensor memory accelerator copies whole tiles asynchronously by descriptor",
    "warp-specialization": "some warps only load while others only compute",
    "recomputation": "cheap intermediate values are computed again instead of stored",
    "launch-tuning": "block sizes, warps, threads and stages of the launch are chosen for the device",
    "loop-order": "loops are nested so that the innermost one walks contiguous memory",
    "threads": "the work is split over the cores of the processor",
    "unrolling": "the steps of a loop are written out, so that independent instructions overlap",
    "scan": "a parallel prefix scan replaces a sequential one",
}
"""The techniques that examples are split by, and what each does."""


class Gain(BaseModel):
    """The measured speedup of an example's second kernel: medians, their ratio and its interval."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    before_ms: float = Field(gt=0, allow_inf_nan=False)
    after_ms: float = Field(gt=0, allow_inf_nan=False)
    speedup: float = Field(gt=0, allow_inf_nan=False)
    low: float = Field(gt=0, allow_inf_nan=False)
    high: float = Field(gt=0, allow_inf_nan=False)
    device: str
    environment: dict[str, Any] = Field(default_factory=dict)
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{16}$")
    """Digest of the measured sources, where recorded: the metrics apply to no others."""

    @classmethod
    def between(cls, before: Evaluation, after: Evaluation, device: str, digest: str | None = None) -> Gain | None:
        """Return the gain; None unless one run timed both, beside the same reference and undisturbed."""
        if before.measurement is None or after.measurement is None or before.reference != after.reference:
            return None
        if before.contention is not None or after.contention is not None:
            return None
        speedup = Speedup.between(before.measurement, after.measurement)
        return cls(
            before_ms=before.measurement.median_ms,
            after_ms=after.measurement.median_ms,
            speedup=round(speedup.ratio, 4),
            low=round(speedup.low, 4),
            high=round(speedup.high, 4),
            device=device,
            environment=dict(after.environment),
            digest=digest,
        )

    def __str__(self) -> str:
        return f"{self.speedup:.2f}x on {self.device} ({self.before_ms:.4g} ms to {self.after_ms:.4g} ms)"


@dataclass(frozen=True)
class WorkedExample:
    """A kernel before and after an optimization, both correct."""

    slug: str
    """Its name: `triton/softmax-online`."""
    title: str
    language: Language
    target: Target
    operation: str
    """'matmul', 'softmax', 'layernorm', ..."""
    category: str
    """The first kernel's bottleneck, one of `BOTTLENECKS`."""
    techniques: tuple[str, ...]
    """What the second kernel has and the first one lacks; names of `TECHNIQUES`."""
    before: str
    """Source text."""
    after: str
    story: str
    """Symptom, cause and change, in words."""
    problem: str | None = None
    """The id of the problem that both solve, where it has one: 'level1/1_23'."""
    origin: Literal["corpus", "run"] = "corpus"
    """Whether it is shipped, or found by a run of this installation."""
    gain: Gain | None = None


@dataclass(frozen=True)
class Query:
    """The kernel to optimize, and the technique wanted; unknown fields may be left out."""

    text: str = ""
    """A symptom, a technique or an idea, in words."""
    language: Language | None = None
    target: Target | None = None
    device: str | None = None
    """The device's name, as in the measurements of examples."""
    operation: str | None = None
    category: str | None = None
    source: str | None = field(default=None, repr=False)
    """Source of the kernel to optimize."""
    exclude: str | None = None
    """Id of the problem to optimize, or slug of an example: never among the results."""


@dataclass(frozen=True)
class Hit:
    """An example that was found."""

    example: WorkedExample
    score: float
    """Larger is better; comparable within one result only."""
    why: str
    """The reasons, in a few words."""


def check_count(k: int) -> None:
    """Raise `OptionError` for less than one example."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise OptionError(f"cannot search for {k!r} examples; ask for a whole number from 1")
