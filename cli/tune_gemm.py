"""`tune gemm` on the terminal: a line per shape, then the files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from ..api.gemm import run_gemm
from ..api.gemm_result import GemmResult
from ..api.options.gemm import GemmOptions
from ..core import Config
from ..core.events import Event, PartDone
from ..tuners.gemm.result import ShapeResult
from .parameters import chosen
from .render import Display, Screen


def show_gemm(given: Mapping[str, Any], display: Display) -> int:
    """Tune and show the result; 0 when every shape that was asked for has a choice."""
    options = chosen(given, GemmOptions)
    screen = GemmDisplay(display, options.compare or options.compare_wo_tuning)
    result = run_gemm(options, screen.emit)
    if display.json:
        display.print_json(result.summary())
    else:
        show_result(result, screen)
    return 1 if result.failed or result.refused else 0


class GemmDisplay(Screen):
    """One line per shape."""

    def __init__(self, display: Display, errors: bool) -> None:
        super().__init__(display)
        self._with_errors = errors

    def emit(self, event: Event) -> None:
        """Show the choice for a shape, its speed, and the time that is left."""
        if not (isinstance(event, PartDone) and isinstance(event.result, ShapeResult)):
            super().emit(event)
            return
        result, left_s = event.result, event.left_s
        left = f"; about {duration(left_s)} left" if left_s and event.number < event.total else ""
        described = f"{describe(result, self._with_errors)}, {result.seconds:.0f} s{left}"
        line = f"[{event.number}/{event.total}] {result.shape}: {described}"
        if result.config is None:
            self.errors.print(escape(line))
        else:
            self.note(line)


def describe(result: ShapeResult, with_error: bool = False) -> str:
    """A shape's result in words."""
    if result.config is None:
        return f"no choice: {result.error}"
    parts = [result.chosen] if result.time_ms is None else []
    if (speed := result.teraflops(result.time_ms)) is not None and result.time_ms is not None:
        parts.append(f"{result.time_ms:.4f} ms, {speed:.1f} TFLOP/s")
    if result.gain is not None:
        parts.append(f"{result.gain:.2f}x the analytic choice")
    if result.over_baseline is not None:
        beside = result.teraflops(result.baseline_ms)
        parts.append(f"{result.over_baseline:.2f}x cuBLAS ({beside:.1f} TFLOP/s)")
    if result.shape.experts and result.reference_ms and result.time_ms:
        parts.append(f"{result.reference_ms / result.time_ms:.2f}x PyTorch, expert by expert")
    if with_error and result.max_error is not None:
        parts.append(f"largest error {result.max_error:.1e}")
    return f"{', '.join(parts)} ({Config(result.config)})"


def duration(seconds: float) -> str:
    """'40 s' or '3 min'."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def show_result(result: GemmResult, screen: Screen) -> None:
    """What the sweep came to."""
    summary = result.summary()
    means = (("times_the_analytic_choice", "the analytic choice"), ("times_the_baseline", "cuBLAS"))
    for key, name in means:
        if summary[key] is not None:
            screen.console.print(f"geometric mean: {summary[key]:.3f}x {name}")
    if result.covered is not None and result.rule is not None:
        names = {config: f"config {number}" for number, config in enumerate(result.covered.configs, start=1)}
        loss = f"{result.covered.slowdown - 1:.1%} on average, {result.covered.worst - 1:.1%} at worst"
        screen.console.print(f"{len(names)} configs for all shapes lose {loss}:")
        for config, name in names.items():
            screen.console.print(f"  {name}: {escape(str(config))}")
        slowdown = f" (loses {result.rule_slowdown - 1:.1%} on average)" if result.rule_slowdown else ""
        screen.console.print(f"the rule that chooses among them{slowdown}:")
        for line in result.rule.lines(names, "  "):
            screen.console.print(line)
    if result.failed:
        screen.errors.print(f"[red]{len(result.failed)} of {len(result.shapes)} shapes have no choice[/]")
    for path in result.files:
        screen.console.print(f"wrote {escape(str(path))}", soft_wrap=True)
