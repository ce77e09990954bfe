"""Derives a kernel's bottleneck from its metrics: causes, each with the speedup that fixing it could bring."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..kernel_profile import KernelProfile
from ..profile import Profile
from ..retrieval import BOTTLENECKS
from .observed import Cause, Observed
from .table import IDLE, OTHERS, ROOFLINE, WITHIN, CauseRow

_COSTS = 1.02
"""Factor from which a cause costs something; the lines of others are remarks."""


@dataclass(frozen=True)
class Bottleneck:
    """The largest cause of lost time, with the evidence of all causes."""

    name: str
    """One of `BOTTLENECKS`."""
    cause: str
    """The largest cause of the category: 'memory bandwidth', 'small grid', 'register spills', ..."""
    evidence: tuple[str, ...]
    """A line for each cause, the one that costs most first, then remarks."""
    factors: dict[str, float]
    """Possible speedup by category if all causes of the category were fixed."""


def find_bottleneck(
    profile: Profile,
    latency_ms: float,
    ran: KernelProfile | None = None,
    cores_used: float | None = None,
    defined: int = 1,
) -> Bottleneck:
    """Return the bottleneck of a kernel whose call takes `latency_ms`.

    `ran` is the profile of one call, and `cores_used` the number of cores that it kept busy. `defined` is the number of
    kernels in the source, which is used if the profiler saw none. Factors of causes in one category are multiplied.
    """
    seen = Observed(profile, latency_ms, ran, cores_used, defined)
    idle = _causes(IDLE, seen)
    seen = replace(seen, lost=math.prod(cause.factor for cause in idle))
    within = _causes(WITHIN, seen)
    seen = replace(seen, explained=max((cause.factor for cause in within), default=1.0))
    causes = [*idle, *within, *_causes(ROOFLINE, seen), *_causes(OTHERS, seen)]
    factors = dict.fromkeys(BOTTLENECKS, 1.0)
    for cause in causes:
        factors[cause.category] *= cause.factor
    name = max(BOTTLENECKS, key=lambda category: factors[category])
    largest = sorted((cause for cause in causes if cause.category == name), key=lambda cause: cause.factor)[-1]
    costly = sorted((cause for cause in causes if cause.factor >= _COSTS), key=lambda cause: -cause.factor)
    remarks = [cause for cause in causes if cause.factor < _COSTS]
    evidence = tuple(cause.evidence for cause in [*costly, *remarks] if cause.text)
    return Bottleneck(name, largest.name, evidence, factors)


def _causes(rows: Iterable[CauseRow], seen: Observed) -> list[Cause]:
    return [cause for row in rows for cause in row.causes(seen)]
