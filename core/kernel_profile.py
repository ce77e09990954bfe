"""What a kernel did on a device: its launches, and what each compiled kernel takes of a multiprocessor."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

NAME_LIMIT = 80


class DeviceKernel(BaseModel):
    """One kernel as the profiler saw it: its launches of one shape in one call of the model, together.

    On a CPU, an operator of torch, of which only the name, the calls and the time are known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    launches: int = Field(gt=0)
    time_ms: float = Field(ge=0)
    own: bool
    """Whether the candidate's source defines it; else it is a library's."""
    registers: int | None = Field(default=None, ge=0)
    """32-bit registers per thread."""
    spills: int | None = Field(default=None, ge=0)
    """Bytes per thread that did not fit into registers (local memory, with arrays whose indices are computed)."""
    shared_bytes: int | None = Field(default=None, ge=0)
    """Per block."""
    threads: int | None = Field(default=None, gt=0)
    """Per block."""
    blocks: int | None = Field(default=None, gt=0)
    occupancy: float | None = Field(default=None, ge=0, le=1)
    """Warps that a multiprocessor can keep at once, over the most that it could."""
    limited_by: str | None = None
    """What bounds the occupancy: 'registers', 'shared memory', 'threads', 'blocks'."""
    resident_blocks: int | None = Field(default=None, ge=0)
    """Blocks that a multiprocessor can keep at once."""

    @property
    def short_name(self) -> str:
        """On one line, and cut off where templates make it long."""
        name = " ".join(self.name.split()).removeprefix("void ")
        return name if len(name) <= NAME_LIMIT else f"{name[: NAME_LIMIT - 3]}..."

    def waves(self, multiprocessors: int) -> float | None:
        """How often such a GPU fills itself with the kernel's blocks before all of them have run."""
        if self.blocks is None or not self.resident_blocks:
            return None
        return self.blocks / (self.resident_blocks * multiprocessors)


class KernelProfile(BaseModel):
    """All that ran on the device in one call of the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernels: tuple[DeviceKernel, ...] = ()
    """The longest first."""
    counters: dict[str, float] = Field(default_factory=dict)
    """Of Nsight Compute, for the candidate's own kernels, weighted by their time: 'dram_throughput_pct'; see
    docs/profile.md for the names. Empty where it was not asked for or is not there."""

    @property
    def time_ms(self) -> float:
        """Time that kernels ran, summed over all."""
        return sum(kernel.time_ms for kernel in self.kernels)

    @property
    def own_share(self) -> float | None:
        """The share of that time in the candidate's own kernels; None when nothing ran."""
        return sum(k.time_ms for k in self.kernels if k.own) / self.time_ms if self.time_ms > 0 else None
