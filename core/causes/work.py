"""Causes by the time and the work: idle cores, and what remains above the roofline."""

from __future__ import annotations

from collections.abc import Iterator

from ..text import digits
from .observed import Observed, short_digits

Found = Iterator[tuple[float, str]]
_SATURATED = 0.85
"""Fraction of the copy bandwidth above which memory is a kernel's only limit."""
_NEAR = 2
_LEFT = 1.02
"""Multiple of the floor of memory beyond which bandwidth is not the limit."""


def idle_cores(seen: Observed) -> Found:
    """Yield the cores of a CPU that are not busy."""
    used, cores = seen.cores_used, seen.profile.ceilings.cores
    if not seen.on_gpu and used is not None and cores > 1:
        yield max(1.0, cores / max(used, 0.1)), f"{min(used, cores):.1f} of {cores} cores busy"


def traffic(seen: Observed) -> Found:
    """Yield the bandwidth that the call reached at least."""
    ceiling = seen.profile.ceilings.copy_gb_s
    share = _bandwidth_share(seen)
    yield (
        1.0,
        f"moves at least {digits(share * ceiling)} GB/s, {share:.0%} of the {digits(ceiling)} that a copy reaches "
        f"(each of {digits(seen.profile.min_bytes / 1e6)} MB counts once, however often it is read)",
    )


def rate(seen: Observed) -> Found:
    """Yield the rate of matrix products that the call reached."""
    profile = seen.profile
    if profile.matrix_flops:
        reached = profile.matrix_flops / seen.latency_ms / 1e6
        yield (
            1.0,
            f"computes {digits(reached)} GFLOP/s in matrix products, {reached / profile.matrix_gflop_s:.0%} of the "
            f"{digits(profile.matrix_gflop_s)} that {profile.product_precision} allow",
        )


def floor(seen: Observed) -> Found:
    """Yield the distance from the roofline floor."""
    yield 1.0, f"{seen.gap:.1f} times its roofline floor of {short_digits(seen.profile.floor_ms)} ms"


def matrix_rate(seen: Observed) -> Found:
    """Yield what remains above the floor of matrix products."""
    if not seen.memory_bound:
        yield seen.rest, "the floor is that of its matrix products"


def data_reuse(seen: Observed) -> Found:
    """Yield the part of it that reuse of data could bring."""
    if not seen.memory_bound:
        yield seen.rest**0.5, ""


def bandwidth(seen: Observed) -> Found:
    """Yield what remains above the floor of memory, near it."""
    if seen.memory_bound and seen.gap < _NEAR * seen.lost:
        yield seen.rest, _bandwidth_text(_bandwidth_share(seen))


def instructions(seen: Observed) -> Found:
    """Yield what remains far above the floor of memory on a CPU."""
    if _far(seen) and not seen.on_gpu:
        yield seen.rest, "its instructions take longer than the transfer of its bytes"


def unexplained(seen: Observed) -> Found:
    """Yield what remains far above the floor of memory on a GPU, with where no cause was found."""
    if not _far(seen) or not seen.on_gpu:
        return
    if seen.explained > 1:
        if seen.rest < _LEFT:
            return
        yield seen.rest, "no cause was found for what the others leave"
        return
    read = next(seen.codes, None) is not None
    yield (
        seen.rest,
        f"no cause was found in launches{' or machine code' if read else '; its machine code was not read'}",
    )


def _far(seen: Observed) -> bool:
    """Return whether the time is far above a floor that memory sets."""
    return seen.memory_bound and seen.gap >= _NEAR * seen.lost


def access_pattern(seen: Observed) -> Found:
    """Yield the part of it that other accesses could bring."""
    if _far(seen):
        yield seen.rest**0.5, ""


def _bandwidth_share(seen: Observed) -> float:
    return seen.profile.min_bytes / seen.latency_ms / 1e6 / seen.profile.ceilings.copy_gb_s


def _bandwidth_text(share: float) -> str:
    """Describe a fraction of the copy bandwidth. The bytes that really moved are not known."""
    if share >= _SATURATED:
        return "close enough to the copy's bandwidth that only less traffic helps"
    return (
        f"the other {1 - share:.0%} of the bandwidth goes into bytes that move more than once (count them in the "
        "source), or is not used because too few loads are in flight"
    )
