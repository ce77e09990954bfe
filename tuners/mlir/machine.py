"""Properties of the processor that determine the space of schedules."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ...core import Target


@dataclass(frozen=True)
class ScheduleTarget:
    """A processor to schedule for."""

    target: Target
    workers: int = 1
    """For a CPU, the number of threads that run tiles of the distribution."""
    vector_bytes: int = 32
    """For a CPU, the width of its vector registers in bytes."""

    @property
    def vector_registers(self) -> int:
        """Number of vector registers: on x86-64 32 with AVX-512, otherwise 16."""
        return 32 if self.vector_bytes == 64 else 16

    @classmethod
    def this_cpu(cls) -> ScheduleTarget:
        """The processor of this process and the cores it may use."""
        return cls(Target.CPU, len(os.sched_getaffinity(0)), _vector_bytes())


def _vector_bytes() -> int:
    """Return the width of the vector registers in bytes, 16 if unknown."""
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text().split()) if info.exists() else set()
    return 64 if "avx512f" in flags else 32 if "avx2" in flags else 16
