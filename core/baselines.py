"""Names of the baselines that kernels are compared with. docs/timing.md explains the choice."""

from __future__ import annotations

from typing import Literal

STRICT = "strict"
"""Eager PyTorch with TF32 off: fp32 is computed in fp32."""
DEFAULT = "default"
"""Eager PyTorch with its defaults, which allow TF32 in fp32 convolutions."""
COMPILE = "compile"
"""`torch.compile` with PyTorch's defaults."""

REMEMBERED = "as measured before"
"""Suffix of a baseline's method if it was not timed in this run: its ratio to the reference is from an earlier run."""

Precision = Literal["fp32", "default"]
"""Required precision of reference and kernel: fp32 in fp32, or PyTorch's defaults."""

BesideCompile = Literal["faster", "as fast", "slower", "not compiled"]
"""Comparison with `torch.compile`, by the interval of the speedup."""


def beside_compile(interval: tuple[float, float] | None) -> BesideCompile:
    """Compare a result with `torch.compile`. Without an interval, torch could not compile the reference."""
    if interval is None:
        return "not compiled"
    low, high = interval
    return "faster" if low > 1 else "slower" if high < 1 else "as fast"


def reference_name(precision: str) -> str:
    """Return the name of the baseline that serves as reference at a precision."""
    return DEFAULT if precision == DEFAULT else STRICT


def against_text(against: str, precision: str = "fp32") -> str:
    """Describe what a speedup is against: 'the reference', "PyTorch's defaults", ..."""
    if against == reference_name(precision):
        return "the reference"
    return {DEFAULT: "PyTorch's defaults", COMPILE: "torch.compile"}.get(against, against)
