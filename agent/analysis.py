"""Where a kernel loses its time, judged from figures: the roofline, the cores it keeps busy, past turns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ..core import Evaluation, Kernel, Profile


class Category(StrEnum):
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
"""Below which speedup, the name of the tier, and what is worth trying there."""


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
    """'products' where matrix products or convolutions bound the time from below, else 'streams'."""
    latency_ms: float
    floor_ms: float

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def performance_category(speedup: float) -> str:
    """SLOW, MODERATE or GOOD, as the list of slow kernels shows them."""
    if speedup < 0.8:
        return "SLOW"
    return "MODERATE" if speedup <= 1.2 else "GOOD"


def analyse(profile: Profile, kernel: Kernel, best: Evaluation, failed: Sequence[Category] = ()) -> Analysis:
    """Rank the four categories by how much time each could explain.

    Each category's score is a factor: how many times faster the kernel could be if only that were mended.
    Categories whose last attempts brought nothing (`failed`) count half per attempt.
    """
    assert best.latency_ms is not None
    latency = best.latency_ms
    evidence: list[str] = []
    scores = dict.fromkeys(Category, 1.0)

    cores, used = profile.ceilings.cores, best.cores_used
    idle = 1.0
    if used is not None and cores > 1:
        idle = max(1.0, cores / max(used, 0.1))
        evidence.append(f"{min(used, cores):.1f} of {cores} cores busy")
    scores[Category.PARALLELISM] = idle

    memory_gap = latency / profile.memory_floor_ms
    compute_gap = latency / profile.compute_floor_ms if profile.compute_floor_ms else float("inf")
    achieved = profile.min_bytes / latency / 1e6
    evidence.append(
        f"moves {achieved:.1f} GB/s of the {profile.ceilings.copy_gb_s:.1f} that a copy reaches "
        f"({profile.min_bytes / 1e6:.1f} MB at least)"
    )
    if profile.matrix_flops:
        rate = profile.matrix_flops / latency / 1e6
        evidence.append(f"computes {rate:.1f} of {profile.matrix_gflop_s:.1f} GFLOP/s")
    gap = latency / profile.floor_ms
    evidence.append(f"{gap:.1f} times its roofline floor of {profile.floor_ms:.3f} ms")
    # What parallelism cannot explain is left to instructions or to traffic.
    rest = max(1.0, gap / idle)
    memory_bound = profile.memory_floor_ms >= profile.compute_floor_ms
    if memory_bound and min(memory_gap, compute_gap) < 2 * idle:
        scores[Category.MEMORY] = rest
        evidence.append("close enough to the copy's bandwidth that only less traffic helps")
    else:
        scores[Category.COMPUTE] = rest
        scores[Category.MEMORY] = rest**0.5
        if memory_bound:
            evidence.append("far from both ceilings: waiting for instructions, not for memory")
    launches = max(1, len(re.findall(r"\bT\.Kernel\(|@triton\.jit\b", kernel.source)))
    if launches > 1:
        evidence.append(f"{launches} kernels, whose intermediate results go through memory")
    if profile.eager_bytes > 1.5 * profile.min_bytes:
        scores[Category.ALGORITHM] = (profile.eager_bytes / profile.min_bytes) ** 0.25 * launches**0.25
    for category in failed:
        scores[category] = max(1.0, scores[category] / 2)
    ranking = tuple(sorted(Category, key=lambda category: -scores[category]))
    speedup = best.speedup.ratio if best.speedup else 1.0
    tier, suggestions = next((name, texts) for bound, name, texts in STRATEGIES if speedup < bound)
    return Analysis(
        category=ranking[0],
        ranking=ranking,
        evidence=tuple(evidence),
        tier=tier,
        performance=performance_category(speedup),
        suggestions=suggestions,
        work="streams" if memory_bound else "products",
        latency_ms=latency,
        floor_ms=profile.floor_ms,
    )
