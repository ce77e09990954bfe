"""The bottleneck of a kernel, from its metrics and the past turns, with techniques worth trying next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from pydantic import TypeAdapter

from ..core import Evaluation, Kernel, Profile
from ..core.causes.bottleneck import Bottleneck, find_bottleneck
from ..core.turn_record import AnalysisRecord


class Category(StrEnum):
    """Categories of bottlenecks: memory, compute, parallelism or the algorithm."""

    MEMORY = "memory"
    COMPUTE = "compute"
    PARALLELISM = "parallelism"
    ALGORITHM = "algorithm"


STRATEGIES: tuple[tuple[float, str, tuple[str, ...]], ...] = (
    (
        0.5,
        "critical",
        (
            "memory bandwidth",
            "data reuse in fast memory",
            "a better algorithm for locality",
            "mixed precision",
        ),
    ),
    (
        0.8,
        "moderate",
        ("block and thread configuration", "access patterns", "register tiling", "balanced work"),
    ),
    (
        1.2,
        "fine-tuning",
        ("pipelining", "features of the processor", "block sizes and thread counts", "instructions"),
    ),
    (
        float("inf"),
        "advanced",
        ("the memory hierarchy as a whole", "features of the processor", "the last per cent"),
    ),
)
"""Upper bound of the speedup, name of the tier, and techniques worth trying there."""


@dataclass(frozen=True)
class Analysis:
    """The bottleneck of a kernel, with the evidence."""

    category: Category
    ranking: tuple[Category, ...]
    """All categories, the most promising first."""
    evidence: tuple[str, ...]
    tier: str
    performance: str
    """SLOW below 0.8 times the reference, MODERATE up to 1.2, GOOD above."""
    suggestions: tuple[str, ...]
    work: str
    """'products' if matrix products or convolutions determine the floor, otherwise 'streams'."""
    latency_ms: float
    floor_ms: float

    def record(self) -> AnalysisRecord:
        """Return the analysis as a journal contains it."""
        return AnalysisRecord(**asdict(self))

    @classmethod
    def from_record(cls, record: AnalysisRecord) -> Analysis:
        """Return the analysis of a record. Raises pydantic's `ValidationError` for records of the first journals."""
        return TypeAdapter(cls).validate_python(record.model_dump())


def performance_category(speedup: float) -> str:
    """Return SLOW, MODERATE or GOOD, as in the list of slow kernels."""
    if speedup < 0.8:
        return "SLOW"
    return "MODERATE" if speedup <= 1.2 else "GOOD"


def bottleneck(profile: Profile, kernel: Kernel, timed: Evaluation) -> Bottleneck:
    """Return the bottleneck by the metrics of an evaluation, without the past turns."""
    assert timed.latency_ms is not None
    defined = len(re.findall(kernel.language.definition, kernel.source))
    return find_bottleneck(profile, timed.latency_ms, timed.kernel_profile, timed.cores_used, max(1, defined))


def analyse(profile: Profile, kernel: Kernel, best: Evaluation, failed: Sequence[Category] = ()) -> Analysis:
    """Rank the four categories by how much time each could explain.

    `find_bottleneck` gives each category's share and the evidence for it. Categories whose last attempts did not help
    (`failed`) count half per attempt.
    """
    assert best.latency_ms is not None
    latency = best.latency_ms
    found = bottleneck(profile, kernel, best)
    scores = {category: found.factors[category] for category in Category}
    for category in failed:
        scores[category] = max(1.0, scores[category] / 2)
    ranking = tuple(sorted(Category, key=lambda category: -scores[category]))
    speedup = best.speedup.ratio if best.speedup else 1.0
    tier, suggestions = next((name, texts) for bound, name, texts in STRATEGIES if speedup < bound)
    return Analysis(
        category=ranking[0],
        ranking=ranking,
        evidence=found.evidence,
        tier=tier,
        performance=performance_category(speedup),
        suggestions=suggestions,
        work="streams" if profile.memory_floor_ms >= profile.compute_floor_ms else "products",
        latency_ms=latency,
        floor_ms=profile.floor_ms,
    )
