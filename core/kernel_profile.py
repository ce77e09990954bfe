"""The profile of a kernel on a device: its launches, and the resources of each compiled kernel."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field

from .compiled_code import CompiledCode

NAME_LIMIT = 80
SLOWER = 1.1
"""A profiled call was slowed, by the profiler or other processes, if it took this many times the timed median."""


class DeviceKernel(BaseModel):
    """One kernel of a profile: all launches with one shape in a call of the model.

    On a CPU it is a torch operator, with only its name, number of calls and time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    launches: int = Field(gt=0)
    time_ms: float = Field(ge=0)
    own: bool
    """Whether the candidate's source defines the kernel; otherwise a library does."""
    registers: int | None = Field(default=None, ge=0)
    """32-bit registers per thread."""
    spills: int | None = Field(default=None, ge=0)
    """Spilled bytes per thread (local memory, including arrays with computed indices)."""
    shared_bytes: int | None = Field(default=None, ge=0)
    """Bytes of shared memory per block."""
    threads: int | None = Field(default=None, gt=0)
    """Threads per block."""
    blocks: int | None = Field(default=None, gt=0)
    occupancy: float | None = Field(default=None, ge=0, le=1)
    """Resident warps per multiprocessor, as a fraction of the maximum."""
    limited_by: str | None = None
    """The resource that limits the occupancy: 'registers', 'shared memory', 'threads', 'blocks'."""
    resident_blocks: int | None = Field(default=None, ge=0)
    """Resident blocks per multiprocessor."""
    tensor_cores: tuple[str, ...] | None = None
    """Matrix instructions in the compiled code with their operand types, such as 'wgmma bf16'. Empty if it has none,
    None if the code is unknown."""
    code: CompiledCode | None = None
    """Facts of its machine code; None if it was not read, as on AMD's GPUs."""

    @property
    def short_name(self) -> str:
        """The name on one line, with long template arguments shortened."""
        name = " ".join(self.name.split()).removeprefix("void ")
        return name if len(name) <= NAME_LIMIT else f"{name[: NAME_LIMIT - 3]}..."

    def waves(self, multiprocessors: int) -> float | None:
        """Return the number of waves on a GPU with this many multiprocessors; None if the launch is unknown."""
        if self.blocks is None or not self.resident_blocks:
            return None
        return self.blocks / (self.resident_blocks * multiprocessors)

    def filled(self, multiprocessors: int) -> float | None:
        """Return the mean occupancy over the launch, for blocks of equal time; None if it is unknown.

        It is below `occupancy` if the grid or its last wave does not fill the GPU.
        """
        waves = self.waves(multiprocessors)
        return None if waves is None or self.occupancy is None else self.occupancy * waves / math.ceil(waves)


class KernelProfile(BaseModel):
    """Everything that ran on the device in one call of the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernels: tuple[DeviceKernel, ...] = ()
    """Kernels, the longest first."""
    counters: dict[str, float] = Field(default_factory=dict)
    """Counters of Nsight Compute for the candidate's own kernels, weighted by time, such as 'dram_throughput_pct'; see
    docs/profile.md. Empty if not requested or not available."""

    @property
    def time_ms(self) -> float:
        """Total kernel time in milliseconds."""
        return sum(kernel.time_ms for kernel in self.kernels)

    def slowed(self, latency_ms: float | None) -> bool:
        """Return whether the profiled call was slower than timed calls. Then only ratios of its times count."""
        return latency_ms is not None and self.time_ms > SLOWER * latency_ms

    def share(self, kernel: DeviceKernel) -> float:
        """Return a kernel's fraction of the profiled call's time."""
        return kernel.time_ms / self.time_ms if self.time_ms > 0 else 0.0

    @property
    def own_share(self) -> float | None:
        """Fraction of that time in the candidate's own kernels; None if nothing ran."""
        return sum(k.time_ms for k in self.kernels if k.own) / self.time_ms if self.time_ms > 0 else None
