"""KernelBench's precisions; in a separate module, since a command's help imports them and nothing heavier."""

from __future__ import annotations

from enum import StrEnum


class KernelBenchPrecision(StrEnum):
    """The dtype to which KernelBench casts weights and inputs."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"

    @property
    def dtype(self) -> str:
        """The name of the torch dtype."""
        return {
            KernelBenchPrecision.FP32: "float32",
            KernelBenchPrecision.FP16: "float16",
            KernelBenchPrecision.BF16: "bfloat16",
        }[self]

    @property
    def tolerance(self) -> float:
        """Absolute and relative tolerance."""
        return 1e-4 if self is KernelBenchPrecision.FP32 else 1e-2
