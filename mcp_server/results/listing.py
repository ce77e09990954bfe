"""What `list_slow` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .reply import Reply

if TYPE_CHECKING:
    from ...api.list_slow import Listing, SlowKernel


class SlowRow(Reply):
    """A kernel below the threshold."""

    kernel: str
    """What the other tools take."""
    problem: str
    """Its name."""
    workload: str
    """The sizes at which it was measured."""
    speedup: float
    """Over the reference, eager PyTorch in fp32."""
    category: str
    """SLOW, MODERATE, GOOD, or DISTURBED: then its speedup may be any."""
    latency_ms: float
    """Median milliseconds of one call."""
    reference_ms: float
    disturbed: bool
    """Whether other processes make its figures unreliable."""

    @classmethod
    def of(cls, row: SlowKernel, shown: Callable[[str], str]) -> SlowRow:
        """A row of `api`'s listing."""
        return cls(
            kernel=shown(row.kernel),
            problem=row.problem,
            workload=row.workload,
            speedup=row.speedup,
            category=row.category,
            latency_ms=row.latency_ms,
            reference_ms=row.reference_ms,
            disturbed=row.contention is not None,
        )


class SlowList(Reply):
    """Kernels by measured speedup, the slowest first."""

    slow: list[SlowRow]
    """Those below the threshold."""
    measured: int
    """How many kernels were measured, or had a current record."""
    failed: list[str]
    """Kernels that are not correct or could not be evaluated, with the reason."""
    skipped: list[str]
    """Kernels that the device cannot time, or without a problem, with the reason."""
    next: str
    """What to do next."""

    @classmethod
    def of(cls, listing: Listing, shown: Callable[[str], str]) -> SlowList:
        """The listing in `api`'s record."""
        rows = [SlowRow.of(row, shown) for row in listing.slow]
        return cls(
            slow=rows,
            measured=listing.measured,
            failed=list(listing.failed),
            skipped=list(listing.skipped),
            next="profile the first one for its bottleneck" if rows else "none is slower than the threshold",
        )
