"""What a kernel did on a device: its launches, and what each compiled kernel takes of a multiprocessor."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class DeviceKernel(BaseModel):
    """One kernel as the profiler saw it, all its launches in one call of the model together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    launches: int = Field(gt=0)
    time_ms: float = Field(ge=0)
    own: bool
    """Whether the candidate's source defines it; else it is a library's."""
    registers: int | None = Field(default=None, ge=0)
    """32-bit registers per thread."""
    spills: int | None = Field(default=None, ge=0)
    """Bytes per thread that did not fit into registers."""
    shared_bytes: int | None = Field(default=None, ge=0)
    """Per block."""
    threads: int | None = Field(default=None, gt=0)
    """Per block."""
    blocks: int | None = Field(default=None, gt=0)
    occupancy: float | None = Field(default=None, ge=0, le=1)
    """Warps that a multiprocessor can keep at once, over the most that it could."""
    limited_by: str | None = None
    """What bounds the occupancy: 'registers', 'shared memory', 'threads', 'blocks'."""


class KernelProfile(BaseModel):
    """All that ran on the device in one call."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernels: tuple[DeviceKernel, ...] = ()
    """The longest first."""
    counters: dict[str, float] = Field(default_factory=dict)
    """Of Nsight Compute where it is there, such as 'dram_throughput_pct'."""

    @property
    def time_ms(self) -> float:
        """Time that kernels ran, summed over all."""
        return sum(kernel.time_ms for kernel in self.kernels)

    @property
    def own_share(self) -> float | None:
        """The share of that time in the candidate's own kernels; None when nothing ran."""
        return sum(k.time_ms for k in self.kernels if k.own) / self.time_ms if self.time_ms > 0 else None
