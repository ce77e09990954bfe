"""`kernelwright profile`: where a kernel's time goes, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..agent.program.briefing import measured_text
from ..agent.program.device import device_text
from ..api.options.evaluate import ProfileOptions
from ..api.profile import ProfileResult, run_profile
from ..core import KernelProfile
from .parameters import chosen
from .render import Display, Screen


def show_profile(given: Mapping[str, Any], display: Display) -> int:
    """Profile one kernel; 0 when it is correct."""
    screen = Screen(display)
    result = run_profile(chosen(given, ProfileOptions), screen.emit)
    if display.json:
        display.print_json(result.record())
    else:
        _show(screen, result)
    return 0 if result.correct else 1


def _show(screen: Screen, result: ProfileResult) -> None:
    evaluation = result.evaluation
    if result.profile is not None:
        screen.print(escape(device_text(result.profile)))
    screen.print(escape(measured_text(evaluation)))
    if evaluation.kernel_profile is not None and evaluation.kernel_profile.kernels:
        cores = result.profile.ceilings.cores if result.profile else None
        screen.print(kernel_table(evaluation.kernel_profile, cores, evaluation.latency_ms))
        screen.print(escape(total_text(evaluation.kernel_profile, evaluation.latency_ms)))
    if evaluation.kernel_profile is not None:
        for name, value in evaluation.kernel_profile.counters.items():
            screen.print(escape(f"{name:>24} {value:8.1f}"))
    if result.remark:
        screen.print(escape(result.remark))
    if result.bottleneck is not None:
        screen.print(escape(f"bottleneck: {result.bottleneck.name} ({result.bottleneck.cause})"))
        for line in result.bottleneck.evidence:
            screen.print(escape(f"- {line}"))


def total_text(ran: KernelProfile, latency_ms: float | None) -> str:
    """What the rows add up to, beside the median of the timed calls."""
    if latency_ms is not None and ran.slowed(latency_ms):
        return (
            f"shares of one call that the profiler slowed to {ran.time_ms:.4g} ms; timed calls take {latency_ms:.4g} ms"
        )
    timed = f", of a median of {latency_ms:.4g} ms" if latency_ms is not None else ""
    return f"one profiled call: {ran.time_ms:.4g} ms in all{timed}"


def kernel_table(ran: KernelProfile, multiprocessors: int | None, latency_ms: float | None = None) -> Table:
    """Return a row per kernel; columns of which nothing is known, as on a CPU, are left out.

    Where the profiled call took longer than timed ones, times would not fit these, and only shares are shown.
    The occupancy is the most that fits; the estimate is the mean over the waves, if all blocks take the same time.
    """
    estimated = [kernel.filled(multiprocessors) if multiprocessors else None for kernel in ran.kernels]
    columns: dict[str, list[Any]] = {
        "share": [f"{ran.share(kernel):.1%}" for kernel in ran.kernels],
        "ms": [None if ran.slowed(latency_ms) else f"{kernel.time_ms:.4f}" for kernel in ran.kernels],
        "launches": [kernel.launches for kernel in ran.kernels],
        "blocks": [kernel.blocks for kernel in ran.kernels],
        "threads": [kernel.threads for kernel in ran.kernels],
        "registers": [kernel.registers for kernel in ran.kernels],
        "spills": [kernel.spills for kernel in ran.kernels],
        "shared": [kernel.shared_bytes for kernel in ran.kernels],
        "occupancy": [None if kernel.occupancy is None else f"{kernel.occupancy:.0%}" for kernel in ran.kernels],
        "estimated": [None if item is None else f"{item:.0%}" for item in estimated],
        "limited by": [kernel.limited_by for kernel in ran.kernels],
    }
    known = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    table = Table(box=None, pad_edge=False)
    table.add_column("kernel", overflow="fold")
    for name in known:
        table.add_column(name, justify="right")
    names = [escape(kernel.short_name + ("" if kernel.own else " (library)")) for kernel in ran.kernels]
    for name, *values in zip(names, *known.values(), strict=True):
        table.add_row(name, *("" if value is None else str(value) for value in values))
    return table
