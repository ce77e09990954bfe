"""Facts about a measured kernel, for the rows of the table of causes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ..compiled_code import CompiledCode
from ..kernel_profile import DeviceKernel, KernelProfile
from ..profile import Profile

_WEIGHT = 0.1
"""Fraction of the kernels' total time; kernels below it are ignored."""
_SCHEDULERS = 4
"""Schedulers of a multiprocessor, each of which issues one instruction a cycle."""


@dataclass(frozen=True)
class Cause:
    """One cause of lost time."""

    category: str
    """One of `BOTTLENECKS`."""
    name: str
    """'memory bandwidth', 'small grid', 'register spills', ..."""
    factor: float
    """Possible speedup if only this cause were fixed; 1 for a remark."""
    text: str
    """One line with the metrics; empty if the line of another cause covers it."""

    @property
    def evidence(self) -> str:
        """The line, with the most that the cause costs."""
        costs = f": {COSTS} {1 - 1 / self.factor:.0%} of the time" if self.text and self.factor >= _TOLD else ""
        return self.text + costs


COSTS = "costs up to"
_TOLD = 1.02
"""Factor below which a cause's cost is not shown."""


@dataclass(frozen=True)
class Observed:
    """A kernel's call: the work, its time, and what ran in it."""

    profile: Profile
    latency_ms: float
    ran: KernelProfile | None = None
    """The profile of one call."""
    cores_used: float | None = None
    """Cores of a CPU that the call kept busy."""
    defined: int = 1
    """Kernels in the source, which counts if the profiler saw none."""
    lost: float = 1.0
    """Factor of the time that idle cores, launches and idle multiprocessors explain."""
    explained: float = 1.0
    """Factor of the rest that machine code or counters explain."""

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.profile.limits is not None

    @property
    def on_device(self) -> KernelProfile | None:
        """The profile of the call, if the device is a GPU."""
        return self.ran if self.on_gpu else None

    @property
    def gap(self) -> float:
        """The time over its roofline floor."""
        return self.latency_ms / self.profile.floor_ms

    @property
    def room(self) -> float:
        """The part of `gap` that idle processors do not explain, at least 1."""
        return max(1.0, self.gap / self.lost)

    @property
    def rest(self) -> float:
        """The part of `gap` that nothing else explains, at least 1."""
        return max(1.0, self.room / self.explained)

    @property
    def memory_bound(self) -> bool:
        """Whether memory traffic decides the floor."""
        return self.profile.memory_floor_ms >= self.profile.compute_floor_ms

    @cached_property
    def heavy(self) -> tuple[tuple[DeviceKernel, float], ...]:
        """The candidate's own kernels that take a relevant fraction of the time on a GPU, with the fraction."""
        ran = self.on_device
        if ran is None or not ran.time_ms:
            return ()
        shares = ((kernel, kernel.time_ms / ran.time_ms) for kernel in ran.kernels)
        return tuple((kernel, share) for kernel, share in shares if kernel.own and share > _WEIGHT)

    @property
    def codes(self) -> Iterator[tuple[DeviceKernel, CompiledCode, float]]:
        """The kernels of `heavy` whose machine code was read."""
        for kernel, share in self.heavy:
            if kernel.code is not None:
                yield kernel, kernel.code, share

    def warps(self, kernel: DeviceKernel) -> float | None:
        """Return the warps that share a scheduler while a kernel runs; None if its launch is unknown."""
        if self.profile.limits is None or kernel.threads is None or not kernel.resident_blocks or kernel.blocks is None:
            return None
        blocks = min(kernel.resident_blocks, max(1.0, kernel.blocks / self.profile.limits.multiprocessors))
        return blocks * -(-kernel.threads // 32) / _SCHEDULERS

    def idle(self, kernel: DeviceKernel, code: CompiledCode) -> float:
        """Return the cycles over those in which a scheduler issues an instruction, by the warps that it has."""
        return max(1.0, code.cycles / (code.busy * max(1.0, self.warps(kernel) or 1.0)))

    def gain(self, share: float, factor: float) -> float:
        """Return the overall speedup for a factor on a fraction of the time, no more than the room that there is."""
        return min(partly(share, factor), self.room)


def partly(share: float, factor: float) -> float:
    """Return the overall speedup for a factor on a fraction of the time (Amdahl's law)."""
    return 1 / (1 - share + share / factor)


def short_digits(value: float) -> str:
    """Return milliseconds with three or four decimals."""
    return f"{value:.3f}" if value >= 0.1 else f"{value:.4f}"


def plural(count: int, singular: str, plural: str) -> str:
    """Return a count with its noun."""
    return f"{count} {singular if count == 1 else plural}"


def at_line(line: int | None) -> str:
    """Return ' (line 12)', or nothing without line information."""
    return f" (line {line})" if line else ""


def article(noun: str) -> str:
    """Return a noun with its article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
