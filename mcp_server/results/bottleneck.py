"""What `profile` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...api.explain import in_one_line
from ...core import DeviceKernel, Evaluation, KernelProfile, Profile, Status
from .reply import Reply
from .verdict import FAILED, warnings_of

if TYPE_CHECKING:
    from ...api.profile import ProfileResult

AT_ROOFLINE = 1.05
"""Times the floor, from which on nothing is left to gain."""


class KernelPart(Reply):
    """A kernel that one call launched. What is null is not known, as most is on a CPU."""

    name: str
    own: bool
    """Whether it is the candidate's own code, not a library's."""
    launches: int
    share: float
    """Of the time of one profiled call, from 0 to 1."""
    time_ms: float | None
    """Milliseconds of all its launches in that call; null where the profiler slowed it beyond latency_ms."""
    blocks: int | None
    """Of one launch."""
    threads: int | None
    """Of a block."""
    registers: int | None
    """Of a thread."""
    spilled_bytes: int | None
    """Of a thread, to local memory."""
    shared_bytes: int | None
    """Shared memory of a block."""
    occupancy: float | None
    """The share of a multiprocessor's warps that fit, from 0 to 1."""
    limited_by: str | None
    """What limits the occupancy."""

    @classmethod
    def of(cls, one: DeviceKernel, ran: KernelProfile, latency_ms: float | None) -> KernelPart:
        """A kernel that the profiler saw in a call."""
        return cls(
            name=one.short_name,
            own=one.own,
            launches=one.launches,
            share=ran.share(one),
            time_ms=None if ran.slowed(latency_ms) else one.time_ms,
            blocks=one.blocks,
            threads=one.threads,
            registers=one.registers,
            spilled_bytes=one.spills,
            shared_bytes=one.shared_bytes,
            occupancy=one.occupancy,
            limited_by=one.limited_by,
        )


class Bottleneck(Reply):
    """What bounds a kernel, with the evidence."""

    category: str
    """memory, compute, parallelism or algorithm."""
    cause: str
    """The largest cause of that category, such as memory bandwidth or register spills."""
    evidence: list[str]
    """A line for each cause that was seen, with its figures."""
    possible_speedup: dict[str, float]
    """By category: how many times as fast it could be if all its causes there were gone."""


class Profiled(Reply):
    """Where a kernel's time goes. Times are medians of one call, in milliseconds."""

    kernel: str
    """As it was named in the call."""
    problem: str
    """The id of the problem that it solves."""
    workload: str
    """The sizes at which it was measured."""
    device: str
    """The name of the processor or GPU."""
    correct: bool
    status: Status
    """ok, or the step that failed: then nothing was profiled."""
    message: str
    """The failure, or a remark, in one line."""
    latency_ms: float | None
    """Milliseconds; null where it was not timed."""
    floor_ms: float | None
    """Milliseconds in which the bytes can move, or the products be computed, at the device's measured peak rates: no
    implementation is much faster (the roofline model)."""
    times_floor: float | None
    """latency_ms / floor_ms: near 1 nothing is left to gain."""
    bytes_gb_s: float | None
    """The least that it moves, in 1e9 bytes per second."""
    peak_gb_s: float | None
    """What a large copy moves on this device, in 1e9 bytes per second."""
    gflop_s: float | None
    """Operations of the reference per second of the kernel, in 1e9."""
    peak_gflop_s: float | None
    """What a large matrix product reaches on this device in the operands' precision, in 1e9 operations per second."""
    bottleneck: Bottleneck | None
    """Null where it was not timed."""
    parts: list[KernelPart]
    """The kernels of one call, the longest first; empty where no profiler saw any, as on a CPU."""
    warnings: list[str]
    """What makes the figures doubtful."""
    next: str
    """What to do next."""

    @classmethod
    def of(cls, kernel: str, result: ProfileResult) -> Profiled:
        """The profile in `api`'s record."""
        evaluation, profile, found = result.evaluation, result.profile, result.bottleneck
        latency = evaluation.latency_ms
        ran = evaluation.kernel_profile
        seconds = latency / 1e3 if latency and profile else None
        return cls(
            kernel=kernel,
            problem=result.job.problem.id,
            workload=result.job.problem.workload,
            device=profile.device if profile else evaluation.environment.get("device", ""),
            correct=result.correct,
            status=evaluation.status,
            message=in_one_line(evaluation) or result.remark,
            latency_ms=latency,
            floor_ms=profile.floor_ms if profile else None,
            times_floor=latency / profile.floor_ms if latency and profile else None,
            bytes_gb_s=profile.min_bytes / seconds / 1e9 if seconds and profile else None,
            peak_gb_s=profile.ceilings.copy_gb_s if profile else None,
            gflop_s=profile.flops / seconds / 1e9 if seconds and profile else None,
            peak_gflop_s=profile.matrix_gflop_s if profile else None,
            bottleneck=None
            if found is None
            else Bottleneck(
                category=found.name,
                cause=found.cause,
                evidence=list(found.evidence),
                possible_speedup=found.factors,
            ),
            parts=[KernelPart.of(item, ran, latency) for item in ran.kernels] if ran else [],
            warnings=warnings_of(evaluation),
            next=_next(evaluation, profile, found.cause if found else ""),
        )


def _next(evaluation: Evaluation, profile: Profile | None, cause: str) -> str:
    if not evaluation.ok:
        return FAILED
    if profile is None or evaluation.latency_ms is None:
        return "it is correct and was not timed here: profile it on a device that its language compiles for"
    if evaluation.latency_ms <= AT_ROOFLINE * profile.floor_ms:
        return "stop: it is as fast as the roofline allows"
    return f"change one thing against '{cause}': search_examples shows how others did; then evaluate, and tune"
