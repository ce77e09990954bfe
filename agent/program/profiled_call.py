"""The text for a model about one profiled call of a kernel."""

from __future__ import annotations

from ...core import DeviceKernel, KernelProfile, Profile
from ...core.text import digits
from . import tensor_cores

SHOWN_KERNELS = 6
"""Number of the profiler's kernels that are listed, the longest first."""
NAMED_SHARE = 0.02
"""On a CPU, torch operators are named if they take at least this fraction of a call."""


def call_lines(found: KernelProfile, profile: Profile) -> list[str]:
    """Describe one profiled call, and Nsight Compute's counters."""
    if not found.kernels:
        return ["in one call the profiler saw nothing run"]
    share = found.own_share or 0.0
    if profile.limits is None:
        # On a CPU fractions only, since a profiled call takes longer than a timed one.
        others = [
            kernel for kernel in found.kernels if not kernel.own and kernel.time_ms >= NAMED_SHARE * found.time_ms
        ]
        told = "".join(f", {item.time_ms / found.time_ms:.0%} in {item.short_name}" for item in others[:SHOWN_KERNELS])
        return [f"of one call the kernel's own code took {share:.0%}{told}"]
    lines = [f"in one call the profiler saw {digits(found.time_ms)} ms, {share:.0%} of it in the kernel's own code:"]
    lines += [f"- {_kernel(kernel, profile)}" for kernel in found.kernels[:SHOWN_KERNELS]]
    if rest := found.kernels[SHOWN_KERNELS:]:
        lines.append(f"- {len(rest)} more: {digits(sum(item.time_ms for item in rest))} ms")
    if found.counters:
        counters = ", ".join(f"{name} {digits(value)}" for name, value in found.counters.items())
        lines.append(f"Nsight Compute, of its own kernels: {counters}")
    return lines


def times_text(found: KernelProfile) -> str:
    """List the longest kernels of a profiled call with their times."""
    return ", ".join(f"{_named(kernel)} {digits(kernel.time_ms)} ms" for kernel in found.kernels[:SHOWN_KERNELS])


def _kernel(kernel: DeviceKernel, profile: Profile) -> str:
    parts = [f"{_named(kernel)} {digits(kernel.time_ms)} ms"]
    if kernel.launches > 1:
        parts.append(f"{kernel.launches} launches")
    if kernel.blocks is not None and kernel.threads is not None:
        parts.append(f"{kernel.blocks} blocks of {kernel.threads} threads")
    if kernel.registers is not None:
        spilled = f" and {kernel.spills} bytes spilled" if kernel.spills else ""
        parts.append(f"{kernel.registers} registers{spilled} per thread")
    if kernel.shared_bytes:
        parts.append(f"{digits(kernel.shared_bytes / 1024)} KiB of shared memory")
    if kernel.occupancy is not None:
        parts.append(_occupancy(kernel, profile))
    if told := tensor_cores.by_code(kernel):
        parts.append(told)
    return ", ".join(parts)


def _occupancy(kernel: DeviceKernel, profile: Profile) -> str:
    """Describe how many warps fit, and an estimate of how many there were: nothing counted them."""
    text = f"occupancy at most {kernel.occupancy:.0%}"
    if kernel.occupancy is not None and kernel.occupancy < 1:
        text += f" (limited by {kernel.limited_by})"
    cores = profile.ceilings.cores
    waves, filled = kernel.waves(cores), kernel.filled(cores)
    if waves is None or filled is None:
        return text
    return f"{text}, {waves:.3g} waves, so about {filled:.0%} on average (estimated: all blocks take the same time)"


def _named(kernel: DeviceKernel) -> str:
    return f"{kernel.short_name}{'' if kernel.own else ' (library)'}:"
