"""Causes by the launches of a call on a GPU: gaps, grids, waves, occupancy, library kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..kernel_profile import DeviceKernel
from .observed import Observed, article, at_line, partly, plural, short_digits

Found = Iterator[tuple[float, str]]
_GAP = 0.8
"""Fraction of a call's time in which kernels run."""
_FULL = 0.85
"""Fraction of the multiprocessors that a launch keeps busy on average."""
OCCUPIED = 0.25
"""Fraction of a multiprocessor's warps beyond which more warps seldom help (Volkov: Better Performance at Lower
Occupancy, 2010)."""
_LIBRARY = 0.1
"""Fraction of the time in a library's kernels."""
FEW_WARPS = "of a multiprocessor's warps"
"""Text in the evidence of low occupancy."""


def gaps(seen: Observed) -> Found:
    """Yield the time in which no kernel runs."""
    ran = seen.on_device
    if ran is not None and 0 < ran.time_ms < _GAP * seen.latency_ms:
        launches = sum(kernel.launches for kernel in ran.kernels)
        yield (
            seen.latency_ms / ran.time_ms,
            f"kernels run for {short_digits(ran.time_ms)} of {short_digits(seen.latency_ms)} ms: the rest is launching "
            f"and waiting, with {plural(launches, 'launch', 'launches')}",
        )


def small_grid(seen: Observed) -> Found:
    """Yield launches with fewer blocks than multiprocessors."""
    for kernel, share in seen.heavy:
        multiprocessors = seen.profile.ceilings.cores if seen.profile.limits is None else (
            seen.profile.limits.multiprocessors)  # fmt: skip
        if kernel.blocks is not None and kernel.blocks < _FULL * multiprocessors:
            blocks = plural(kernel.blocks, "block", "blocks")
            text = f"{kernel.short_name} starts {blocks} for {multiprocessors} multiprocessors"
            yield partly(share, multiprocessors / kernel.blocks), text


def last_wave(seen: Observed) -> Found:
    """Yield launches whose last wave of blocks leaves multiprocessors idle."""
    if seen.profile.limits is None:
        return
    multiprocessors = seen.profile.limits.multiprocessors
    for kernel, share in seen.heavy:
        waves = kernel.waves(multiprocessors)
        small = kernel.blocks is not None and kernel.blocks < _FULL * multiprocessors
        if not small and waves is not None and waves > 1 and waves / math.ceil(waves) < _FULL:
            text = f"{kernel.short_name} fills the GPU {waves:.2f} times: its last wave is not full"
            yield partly(share, math.ceil(waves) / waves), text


def spills(seen: Observed) -> Found:
    """Yield spilled bytes. Their cost is unknown without machine code, so the factor is small."""
    for kernel, share in seen.heavy:
        if kernel.spills and kernel.code is None:
            text = f"{kernel.short_name} spills {kernel.spills} bytes per thread at {kernel.registers} registers"
            yield partly(share, 1 + min(1.0, kernel.spills / 256)), text


def occupancy(seen: Observed) -> Found:
    """Yield kernels with few resident warps, and the resource that limits them.

    Machine code shows what that costs: the cycles in which no warp can issue. Without it the factor is a guess.
    """
    for kernel, share in seen.heavy:
        if not few_warps(kernel) or kernel.occupancy is None:
            continue
        text = f"{kernel.short_name} keeps {kernel.occupancy:.0%} {FEW_WARPS}, limited by {_limit(kernel)}"
        if kernel.code is not None and kernel.code.products:
            yield 1.0, text  # few warps are usual beside wgmma: what it waits for has a line of its own
            continue
        if kernel.code is None:
            yield partly(share, min(1.5, (OCCUPIED / max(kernel.occupancy, 0.01)) ** 0.5)), text
            continue
        idle = seen.idle(kernel, kernel.code)
        factor = min(idle, 1 / max(kernel.occupancy, 0.01))
        if factor > 1 and kernel.code.wait is not None:
            text += (
                f"; they issue in {1 / idle:.0%} of the cycles, and wait most for "
                f"{article(kernel.code.wait.producer)}{at_line(kernel.code.wait.produced_line)}"
            )
        yield seen.gain(share, factor), text


def few_warps(kernel: DeviceKernel) -> bool:
    """Return whether a kernel's resources leave so few warps that more would help."""
    return kernel.occupancy is not None and kernel.occupancy < OCCUPIED


def _limit(kernel: DeviceKernel) -> str:
    if kernel.limited_by == "registers":
        return f"{kernel.registers} registers per thread"
    if kernel.limited_by == "shared memory":
        return f"{(kernel.shared_bytes or 0) / 1024:.0f} KiB of shared memory per block"
    return f"{kernel.limited_by} ({kernel.threads} threads per block)"


def library(seen: Observed) -> Found:
    """Yield the time in kernels of a library."""
    ran = seen.on_device
    others = [kernel for kernel in ran.kernels if not kernel.own] if ran is not None else []
    share = sum(kernel.time_ms for kernel in others) / ran.time_ms if ran is not None and ran.time_ms else 0.0
    if share > _LIBRARY:
        longest = max(others, key=lambda kernel: kernel.time_ms)
        text = f"{share:.0%} of the time is not in its own kernels, most of it in {longest.short_name}"
        yield min(4.0, 1 / max(1 - share, 0.1)) ** 0.5, text


def intermediates(seen: Observed) -> Found:
    """Yield several kernels in a call, and operators of the reference that could be fused."""
    ran = seen.on_device
    launches = sum(kernel.launches for kernel in ran.kernels) if ran is not None and ran.kernels else seen.defined
    if launches > 1:
        yield 1.0, f"{launches} kernels, whose intermediate results go through memory"
    excess = seen.profile.eager_bytes / seen.profile.min_bytes
    if excess > 1.5:
        text = f"the reference's operators move {excess:.1f} times what must move when they run one by one"
        yield excess**0.25 * min(max(launches, 1), 16) ** 0.25, text
