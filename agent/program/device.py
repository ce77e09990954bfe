"""The text for a model about a device: its limits, every measured ceiling with its precision, the versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core import Ceilings, DeviceLimits, Kernel, Profile
from ...core.text import digits

_SPLIT = 3
"""Products of narrow parts that make one fp32 product."""


def device_text(profile: Profile) -> str:
    """Describe the device, its measured ceilings and its limits."""
    ceilings, limits = profile.ceilings, profile.limits
    if limits is None:
        return (
            f"{profile.device}: {ceilings.cores} cores\n"
            f"measured: a copy {digits(ceilings.copy_gb_s)} GB/s (read plus written), "
            f"fp32 matrix products {digits(ceilings.matrix_gflop_s)} GFLOP/s"
        )
    lines = [
        f"{profile.device}: {ceilings.cores} multiprocessors, {_architecture(limits)}",
        f"a block may take {limits.shared_bytes // 1024} KiB of shared memory; {limits.registers} registers and "
        f"{limits.threads} threads per multiprocessor" + _cache(limits),
        f"measured: a copy {digits(ceilings.copy_gb_s)} GB/s (read plus written)" + "".join(_small(ceilings)),
        f"matrix products in GFLOP/s, measured: {', '.join(_products(ceilings))}",
    ]
    if limits.exp_g_s is not None:
        rate, clock = limits.described.special_functions, digits(limits.clock_mhz or 0)
        lines.append(
            f"not measured, from the device's limits: {digits(limits.exp_g_s)} G exponentials/s "
            f"({rate} per clock and multiprocessor at {clock} MHz)"
        )
    return "\n".join(lines)


def _architecture(limits: DeviceLimits) -> str:
    """Return the architecture as a model knows it: 'compute capability 9.0', or 'gfx942 (CDNA 3)'."""
    described = limits.described
    if isinstance(described.triton, int):
        return f"compute capability {described.triton / 10:.1f}"
    return f"{described.name} ({described.generation})"


def versions_text(kernel: Kernel, environment: Mapping[str, str]) -> str:
    """Return the versions of the kernel's language, torch and CUDA, as an evaluation recorded them; empty without."""
    names = (*kernel.language.packages, "torch", "cuda")
    return ", ".join(f"{name} {environment[name]}" for name in dict.fromkeys(names) if environment.get(name))


def _cache(limits: DeviceLimits) -> str:
    return "" if limits.l2_bytes is None else f"; L2 cache {digits(limits.l2_bytes / 2**20)} MiB"


def _small(ceilings: Ceilings) -> Iterator[str]:
    if ceilings.l2_gb_s is not None:
        yield f", reads from L2 {digits(ceilings.l2_gb_s)} GB/s"
    if ceilings.latency_ns is not None:
        yield f", {digits(ceilings.latency_ns)} ns from a load to its value in memory"
    if ceilings.launch_us is not None:
        yield f", {digits(ceilings.launch_us)} us for each further launch"


def _products(ceilings: Ceilings) -> Iterator[str]:
    if ceilings.vector_gflop_s is None:
        # An older record.
        yield f"fp32 {digits(ceilings.matrix_gflop_s)} (on vector units or as three of TF32, whichever is faster)"
    else:
        yield f"fp32 on vector units {digits(ceilings.vector_gflop_s)}"
    for name, rate in (("TF32", ceilings.tf32_gflop_s), ("bf16", ceilings.bfloat16_gflop_s)):
        if rate is not None:
            yield f"{name} {digits(rate)} (fp32 as three {name} products {digits(rate / _SPLIT)})"
    for name, rate in (("fp16", ceilings.half_gflop_s), ("fp8", ceilings.float8_gflop_s)):
        if rate is not None:
            yield f"{name} {digits(rate)}"
