"""What a kernel's time is compared with, by name; docs/timing.md explains the choice."""

from __future__ import annotations

from typing import Literal

STRICT = "strict"
"""Eager PyTorch that computes fp32 in fp32: TF32 is off."""
DEFAULT = "default"
"""Eager PyTorch with its own defaults, which let convolutions compute fp32 in TF32."""
COMPILE = "compile"
"""`torch.compile` with PyTorch's own defaults."""

REMEMBERED = "as measured before"
"""How the method of a baseline ends that was not timed in this run: its ratio to the reference is an earlier run's."""

Precision = Literal["fp32", "default"]
"""How exactly the reference computes and a kernel must: fp32 in fp32, or as PyTorch does by default."""

BesideCompile = Literal["faster", "as fast", "slower", "not compiled"]
"""How a result stands to `torch.compile`, by the interval of its speedup."""


def beside_compile(interval: tuple[float, float] | None) -> BesideCompile:
    """Return how a result stands to `torch.compile`; without an interval, torch did not compile the reference."""
    if interval is None:
        return "not compiled"
    low, high = interval
    return "faster" if low > 1 else "slower" if high < 1 else "as fast"


def reference_name(precision: str) -> str:
    """Return the name of the baseline that is the reference under a policy of precision."""
    return DEFAULT if precision == DEFAULT else STRICT


def against_text(against: str, precision: str = "fp32") -> str:
    """'the reference', or "PyTorch's defaults" and the like: what a speedup is against, in words."""
    if against == reference_name(precision):
        return "the reference"
    return {DEFAULT: "PyTorch's defaults", COMPILE: "torch.compile"}.get(against, against)
