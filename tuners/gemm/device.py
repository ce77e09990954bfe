"""A GPU as files and estimates know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core import DeviceLimits, OptionError
from ...core.devices import architectures, cards
from ...core.text import listed

CPU = "cpu"
"""Name of the device in a run that only checks files."""
BLOCK_FORMATS: Mapping[str, int] = {"mxfp8": 32, "nvfp4": 16}
"""Products of operands with a scale for each this many numbers along K."""


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
        """The architecture's name in files of aiter: '90' for Hopper, 'gfx942'; 'cpu' without a GPU."""
        return CPU if self.name == CPU else self.limits.described.suffix

    @property
    def has_fp8(self) -> bool:
        """Whether its matrix units take fp8."""
        return bool(self.limits.described.float8)

    def require(self, dtype: str) -> None:
        """Raise `OptionError` for a dtype or format that its matrix units lack."""
        if dtype in BLOCK_FORMATS and self.name != CPU and dtype not in self.limits.described.block_scaled:
            capable = [item.name for item in architectures().values() if dtype in item.block_scaled]
            raise OptionError(
                f"{self.name} has no {dtype} products ({self.limits.architecture})",
                f"use a GPU of {listed(capable, 'or')}; `device` cpu checks the kernel in Triton's interpreter",
            )
        if dtype.startswith("float8") and not self.has_fp8:
            capable = [item.name for item in architectures().values() if item.float8]
            raise OptionError(
                f"{self.name} has no fp8 products ({self.limits.architecture})",
                f"use `dtype` float16 or bfloat16, or {listed(capable, 'or')}",
            )

    @classmethod
    def of_torch(cls, device: Any = None) -> Device:
        """Return a GPU of this machine, as torch describes it."""
        import torch

        found = torch.cuda.get_device_properties(device)
        properties = {name: getattr(found, name) for name in dir(found) if not name.startswith("_")}
        return cls(found.name, DeviceLimits.of_properties(properties))


def _described(short: str) -> DeviceLimits:
    """Return the limits of a GPU that need not be here, for estimates and files."""
    of, card = cards()[short]
    return DeviceLimits(
        architecture=of.name,
        multiprocessors=card.multiprocessors,
        shared_bytes=of.block_shared_bytes,
        registers=of.registers,
        threads=of.threads,
    )


H200_LIMITS = _described("H200")
"""Placeholder for a run that only checks files, on a machine without a GPU."""
