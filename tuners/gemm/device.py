"""A GPU as files and estimates know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core import DeviceLimits, OptionError

FP8_CAPABILITY = 89
CPU = "cpu"
"""Name of the device in a run that only checks files."""


@dataclass(frozen=True)
class Device:
    """A GPU's name, as the driver reports it, and its limits."""

    name: str
    limits: DeviceLimits

    @property
    def file_name(self) -> str:
        """The name in files of vLLM and SGLang: 'NVIDIA_H200'."""
        return self.name.replace(" ", "_")

    @property
    def architecture(self) -> str:
        """Triton's name of the architecture, as in files of aiter: '90' for Hopper; 'cpu' without a GPU."""
        return CPU if self.name == CPU else str(self.limits.capability)

    @property
    def has_fp8(self) -> bool:
        """Whether its matrix units take fp8."""
        return self.limits.capability >= FP8_CAPABILITY

    def require(self, dtype: str) -> None:
        """Raise `OptionError` for a dtype that its matrix units lack."""
        if dtype.startswith("float8") and not self.has_fp8:
            raise OptionError(
                f"{self.name} has no fp8 products (compute capability {self.limits.capability / 10:.1f})",
                "use `dtype` float16 or bfloat16, or a GPU from 8.9 on",
            )

    @classmethod
    def of_torch(cls, device: Any = None) -> Device:
        """Return a GPU of this machine, as torch describes it."""
        import torch

        found = torch.cuda.get_device_properties(device)
        limits = DeviceLimits(
            capability=10 * found.major + found.minor,
            multiprocessors=found.multi_processor_count,
            shared_bytes=found.shared_memory_per_block_optin,
            registers=found.regs_per_multiprocessor,
            threads=found.max_threads_per_multi_processor,
        )
        return cls(found.name, limits)


H200_LIMITS = DeviceLimits(capability=90, multiprocessors=132, shared_bytes=227 * 1024, registers=65536, threads=2048)
"""Placeholder for a run that only checks files, on a machine without a GPU."""
