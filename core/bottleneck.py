"""Derives a kernel's bottleneck from its metrics: causes, each with the speedup that fixing it could bring."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from .kernel_profile import DeviceKernel, KernelProfile
from .profile import Profile
from .retrieval import BOTTLENECKS
from .text import digits

# Causes beyond these thresholds are not reported.
_GAP = 0.8
"""Fraction of a call's time in which kernels run."""
_FULL = 0.85
"""Fraction of the multiprocessors that a launch keeps busy on average."""
_OCCUPIED = 0.25
"""Fraction of a multiprocessor's warps beyond which more warps seldom help (Volkov: Better Performance at Lower
Occupancy, 2010)."""
FEW_WARPS = "of a multiprocessor's warps"
"""Text in the evidence of low occupancy."""
_SATURATED = 0.85
"""Fraction of the copy bandwidth above which memory is a kernel's only limit."""
_WEIGHT = 0.1
"""Fraction of the kernels' total time; kernels below it are ignored."""


@dataclass(frozen=True)
class Cause:
    """One cause of lost time."""

    category: str
    """One of `BOTTLENECKS`."""
    name: str
    """'memory bandwidth', 'small grid', 'register spills', ..."""
    factor: float
    """Possible speedup if only this cause were fixed; 1 for a remark."""
    evidence: str
    """One line with the metrics; empty if the line of another cause covers it."""


@dataclass(frozen=True)
class Bottleneck:
    """The largest cause of lost time, with the evidence of all causes."""

    name: str
    """One of `BOTTLENECKS`."""
    cause: str
    """The largest cause of the category: 'memory bandwidth', 'small grid', 'register spills', ..."""
    evidence: tuple[str, ...]
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
    on_gpu = profile.limits is not None
    idle = [] if on_gpu else list(_idle_cores(profile, cores_used))
    slack = [*_launching(latency_ms, ran), *_filling(profile, ran)] if on_gpu and ran is not None else []
    lost = math.prod(cause.factor for cause in [*idle, *slack])
    causes = [*idle, *_roofline(profile, latency_ms, lost), *slack]
    if on_gpu and ran is not None:
        causes += [*_registers(ran), *_library(ran), *_counted(profile, ran)]
    causes += _intermediates(profile, ran if on_gpu else None, defined)
    factors = dict.fromkeys(BOTTLENECKS, 1.0)
    for cause in causes:
        factors[cause.category] *= cause.factor
    name = max(BOTTLENECKS, key=lambda category: factors[category])
    largest = sorted((cause for cause in causes if cause.category == name), key=lambda cause: cause.factor)[-1]
    return Bottleneck(name, largest.name, tuple(cause.evidence for cause in causes if cause.evidence), factors)


def _idle_cores(profile: Profile, used: float | None) -> Iterator[Cause]:
    cores = profile.ceilings.cores
    if used is not None and cores > 1:
        factor = max(1.0, cores / max(used, 0.1))
        yield Cause("parallelism", "idle cores", factor, f"{min(used, cores):.1f} of {cores} cores busy")


def _roofline(profile: Profile, latency_ms: float, lost: float) -> Iterator[Cause]:
    """Yield bandwidth, compute rate, and the distance from the floor, less the part that `lost` explains."""
    ceilings = profile.ceilings
    share = profile.min_bytes / latency_ms / 1e6 / ceilings.copy_gb_s
    yield Cause(
        "memory", "traffic", 1.0,
        f"moves at least {digits(share * ceilings.copy_gb_s)} GB/s, {share:.0%} of the {digits(ceilings.copy_gb_s)} "
        f"that a copy reaches (each of {digits(profile.min_bytes / 1e6)} MB counts once, however often it is read)",
    )  # fmt: skip
    if profile.matrix_flops:
        rate = profile.matrix_flops / latency_ms / 1e6
        yield Cause(
            "compute", "rate", 1.0,
            f"computes {digits(rate)} GFLOP/s in matrix products, {rate / profile.matrix_gflop_s:.0%} of the "
            f"{digits(profile.matrix_gflop_s)} that {profile.product_precision} allow",
        )  # fmt: skip
    gap = latency_ms / profile.floor_ms
    rest = max(1.0, gap / lost)
    yield Cause("memory", "traffic", 1.0, f"{gap:.1f} times its roofline floor of {_digits(profile.floor_ms)} ms")
    if profile.memory_floor_ms < profile.compute_floor_ms:
        yield Cause("compute", "matrix rate", rest, "the floor is that of its matrix products")
        yield Cause("memory", "data reuse", rest**0.5, "")
    elif gap < 2 * lost:
        yield Cause("memory", "memory bandwidth", rest, _bandwidth_text(share))
    else:
        far = "far from both ceilings: waiting for instructions, not for memory"
        yield Cause("compute", "instructions", rest, far)
        yield Cause("memory", "access pattern", rest**0.5, "")


def _bandwidth_text(share: float) -> str:
    """Describe a fraction of the copy bandwidth. The bytes that really moved are not known."""
    if share >= _SATURATED:
        return "close enough to the copy's bandwidth that only less traffic helps"
    return (
        f"the other {1 - share:.0%} of the bandwidth goes into bytes that move more than once (count them in the "
        "source), or is not used because too few loads are in flight"
    )


def _launching(latency_ms: float, ran: KernelProfile) -> Iterator[Cause]:
    if 0 < ran.time_ms < _GAP * latency_ms:
        launches = sum(kernel.launches for kernel in ran.kernels)
        yield Cause(
            "algorithm", "launches", latency_ms / ran.time_ms,
            f"kernels run for {_digits(ran.time_ms)} of {_digits(latency_ms)} ms: the rest is launching and waiting, "
            f"with {_plural(launches, 'launch', 'launches')}",
        )  # fmt: skip


def _filling(profile: Profile, ran: KernelProfile) -> Iterator[Cause]:
    """Yield launches with idle multiprocessors: a small grid, or a partial last wave."""
    assert profile.limits is not None
    multiprocessors = profile.limits.multiprocessors
    for kernel, share in _heavy(ran):
        waves = kernel.waves(multiprocessors)
        if kernel.blocks is not None and kernel.blocks < _FULL * multiprocessors:
            factor = _partly(share, multiprocessors / kernel.blocks)
            blocks = _plural(kernel.blocks, "block", "blocks")
            text = (
                f"{kernel.short_name} starts {blocks} for {multiprocessors} multiprocessors ({share:.0%} of the time)"
            )
            yield Cause("parallelism", "small grid", factor, text)
        elif waves is not None and waves > 1 and waves / math.ceil(waves) < _FULL:
            factor = _partly(share, math.ceil(waves) / waves)
            text = f"{kernel.short_name} fills the GPU {waves:.2f} times: its last wave is not full"
            yield Cause("parallelism", "last wave", factor, f"{text} ({share:.0%} of the time)")


def _registers(ran: KernelProfile) -> Iterator[Cause]:
    """Yield spills and low occupancy. Their cost is unknown, so their factors are small."""
    for kernel, share in _heavy(ran):
        if kernel.spills:
            factor = _partly(share, 1 + min(1.0, kernel.spills / 256))
            text = f"{kernel.short_name} spills {kernel.spills} bytes per thread at {kernel.registers} registers"
            yield Cause("compute", "register spills", factor, text)
        if kernel.occupancy is not None and kernel.occupancy < _OCCUPIED:
            factor = _partly(share, min(1.5, (_OCCUPIED / max(kernel.occupancy, 0.01)) ** 0.5))
            text = f"{kernel.short_name} keeps {kernel.occupancy:.0%} {FEW_WARPS}, limited by "
            yield Cause("parallelism", "occupancy", factor, text + _limit(kernel))


def _limit(kernel: DeviceKernel) -> str:
    if kernel.limited_by == "registers":
        return f"{kernel.registers} registers per thread"
    if kernel.limited_by == "shared memory":
        return f"{(kernel.shared_bytes or 0) / 1024:.0f} KiB of shared memory per block"
    return f"{kernel.limited_by} ({kernel.threads} threads per block)"


def _library(ran: KernelProfile) -> Iterator[Cause]:
    others = [kernel for kernel in ran.kernels if not kernel.own]
    share = sum(kernel.time_ms for kernel in others) / ran.time_ms if ran.time_ms else 0.0
    if share > _WEIGHT:
        longest = max(others, key=lambda kernel: kernel.time_ms)
        factor = min(4.0, 1 / max(1 - share, 0.1)) ** 0.5
        text = f"{share:.0%} of the time is not in its own kernels, most of it in {longest.short_name}"
        yield Cause("algorithm", "library kernels", factor, text)


def _counted(profile: Profile, ran: KernelProfile) -> Iterator[Cause]:
    """Yield causes from the counters of Nsight Compute."""
    counters = ran.counters
    moved = counters.get("dram_mb")
    if moved is not None and moved * 1e6 > 1.3 * profile.min_bytes:
        factor = moved * 1e6 / profile.min_bytes
        text = f"{moved:.1f} MB went through device memory, {factor:.1f} times what must move"
        yield Cause("memory", "extra traffic", factor**0.5, text)
    busy = [("device memory", "dram_throughput_pct"), ("multiprocessors", "sm_throughput_pct")]
    busy += [("tensor cores", "tensor_pipe_pct")] if profile.matrix_flops else []
    busy_text = ", ".join(f"{name} {counters[key]:.0f} %" for name, key in busy if key in counters)
    if busy_text:
        yield Cause("compute", "throughput", 1.0, f"busy by Nsight Compute: {busy_text}")
    stalls = {name: value for name, value in counters.items() if name.startswith("stall_")}
    if stalls:
        worst = max(stalls, key=lambda name: stalls[name])
        reason = worst.removeprefix("stall_").removesuffix("_pct").replace("_", " ")
        yield Cause("compute", "stalls", 1.0, f"{stalls[worst]:.0f} % of its warps' stalls are '{reason}'")


def _intermediates(profile: Profile, ran: KernelProfile | None, defined: int) -> Iterator[Cause]:
    launches = sum(kernel.launches for kernel in ran.kernels) if ran is not None and ran.kernels else defined
    if launches > 1:
        text = f"{launches} kernels, whose intermediate results go through memory"
        yield Cause("algorithm", "intermediates", 1.0, text)
    excess = profile.eager_bytes / profile.min_bytes
    if excess > 1.5:
        text = f"the reference's operators move {excess:.1f} times what must move when they run one by one"
        yield Cause("algorithm", "intermediates", excess**0.25 * min(max(launches, 1), 16) ** 0.25, text)


def _heavy(ran: KernelProfile) -> Iterator[tuple[DeviceKernel, float]]:
    """Yield the candidate's own kernels that take a relevant fraction of the time, with the fraction."""
    for kernel in ran.kernels:
        share = kernel.time_ms / ran.time_ms if ran.time_ms else 0.0
        if kernel.own and share > _WEIGHT:
            yield kernel, share


def _partly(share: float, factor: float) -> float:
    """Return the overall speedup for a factor on a fraction of the time (Amdahl's law)."""
    return 1 / (1 - share + share / factor)


def _digits(value: float) -> str:
    return f"{value:.3f}" if value >= 0.1 else f"{value:.4f}"


def _plural(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"
