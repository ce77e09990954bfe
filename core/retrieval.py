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
"""Techniques by which examples are classified, with a description of each."""


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
    """Digest of the measured sources, if recorded. The metrics apply to these sources only."""

    @classmethod
    def between(cls, before: Evaluation, after: Evaluation, device: str, digest: str | None = None) -> Gain | None:
        """Return the gain; None unless both were timed in one run, with the same reference and undisturbed."""
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
    """A kernel before and after an optimization. Both are correct."""

    slug: str
    """The example's name: `triton/softmax-online`."""
    title: str
    language: Language
    target: Target
    operation: str
    """'matmul', 'softmax', 'layernorm', ..."""
    category: str
    """The first kernel's bottleneck, one of `BOTTLENECKS`."""
    techniques: tuple[str, ...]
    """Techniques that the second kernel uses and the first one does not; keys of `TECHNIQUES`."""
    before: str
    """Source text."""
    after: str
    story: str
    """Prose about symptom, cause and change."""
    problem: str | None = None
    """Id of the problem that both solve, if it has one: 'level1/1_23'."""
    origin: Literal["corpus", "run"] = "corpus"
    """'corpus' for a shipped example, 'run' for one found by a run of this installation."""
    gain: Gain | None = None

    @property
    def in_words(self) -> str:
        """'Online softmax (one-pass); 1.41x ...', without its name."""
        return f"{self.title} ({', '.join(self.techniques)}); {self.gain or 'not measured'}"

    def to_json(self) -> dict[str, Any]:
        """The example as plain data, without its sources."""
        return {
            "example": self.slug,
            "title": self.title,
            "operation": self.operation,
            "category": self.category,
            "techniques": list(self.techniques),
            "gain": self.gain.model_dump(mode="json") if self.gain else None,
        }


@dataclass(frozen=True)
class Query:
    """The kernel to optimize and the desired technique. Unknown fields may be omitted."""

    text: str = ""
    """A symptom, a technique or an idea, as prose."""
    language: Language | None = None
    target: Target | None = None
    device: str | None = None
    """Name of the device, as in the measurements of examples."""
    operation: str | None = None
    category: str | None = None
    source: str | None = field(default=None, repr=False)
    """Source of the kernel to optimize."""
    exclude: str | None = None
    """Id of a problem, or slug of an example, to exclude from the results."""


@dataclass(frozen=True)
class Hit:
    """An example that was found."""

    example: WorkedExample
    score: float
    """Larger is better. Scores are comparable within one result only."""
    why: str
    """The reasons, in a few words."""


def check_count(k: int) -> None:
    """Raise `OptionError` if k is less than 1."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise OptionError(f"cannot search for {k!r} examples; ask for a whole number from 1")
