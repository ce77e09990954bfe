"""The result of `tune gemm`: a choice for each shape, and the written files."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import computed_field

from ...core import Config
from ...runtime import result
from ...tuners.gemm.cover import Cover
from ...tuners.gemm.library import NAME
from ...tuners.gemm.result import ShapeResult
from ...tuners.gemm.rule import Rule
from ...tuners.gemm.shapes import Shape


class Result(result.Result):
    """The result of a sweep, and its files. Times are in milliseconds."""

    absent_if_empty: ClassVar = ("configs",)
    product: str
    dtype: str
    device: str
    refused: tuple[str, ...]
    """Entries of the file of sizes that were left out, with reasons."""
    files: tuple[Path, ...] = ()
    """The engine's."""
    shapes: result.ForPython[tuple[ShapeResult, ...]] = ()
    folder: result.ForPython[Path]
    covered: result.ForPython[Cover[Shape] | None] = None
    """The configs that serve all shapes."""
    rule: result.ForPython[Rule | None] = None
    """How to choose among them."""
    rule_slowdown: result.ForPython[float | None] = None
    """Geometric mean of the rule's time over the best, on the shapes that it was made of."""

    @computed_field(alias="shapes")
    @property
    def choices(self) -> list[dict[str, Any]]:
        """For each shape its config, or the reason why it has none."""
        return [shape.to_json() for shape in self.shapes]

    @result.computed
    def times_the_analytic_choice(self) -> float | None:
        """Geometric mean over the shapes that were timed."""
        return geomean([shape.gain for shape in self.shapes])

    @result.computed
    def times_the_baseline(self) -> float | None:
        """Geometric mean over the shapes that were timed with cuBLAS."""
        return geomean([shape.over_baseline for shape in self.shapes])

    @result.computed
    def times_the_library(self) -> float | None:
        """Geometric mean over the shapes that were timed with the library's own product of such operands."""
        return geomean([shape.over_library for shape in self.shapes])

    @result.computed
    def sweep(self) -> Path:
        """The file of all results."""
        return self.folder / "sweep.json"

    @result.computed
    def configs(self) -> dict[str, Any] | None:
        """The configs that serve all shapes, and the rule that chooses; absent if not requested."""
        if self.covered is None or self.rule is None:
            return None
        return {
            "configs": [dict(config) for config in self.covered.configs],
            "slowdown": self.covered.slowdown,
            "worst": self.covered.worst,
            "rule": self.rule.to_json(),
            "rule_slowdown": self.rule_slowdown,
        }

    @property
    def failed(self) -> list[ShapeResult]:
        """The shapes without a choice."""
        return [shape for shape in self.shapes if shape.config is None]

    @property
    def exit_code(self) -> int:
        """1 if a requested shape has no choice."""
        return 1 if self.failed or self.refused else 0

    @property
    def warnings(self) -> list[str]:
        """Number of shapes without a choice."""
        return [f"{len(self.failed)} of {len(self.shapes)} shapes have no choice"] if self.failed else []

    def lines(self) -> Iterator[str]:
        """The means, the configs for all shapes with their rule, and the files."""
        means = (
            (self.times_the_analytic_choice, "the analytic choice"),
            (self.times_the_baseline, "cuBLAS"),
            (self.times_the_library, NAME),
        )
        for mean, name in means:
            if mean is not None:
                yield f"geometric mean: {mean:.3f}x {name}"
        if self.covered is not None and self.rule is not None:
            names = {config: f"config {number}" for number, config in enumerate(self.covered.configs, start=1)}
            loss = f"{self.covered.slowdown - 1:.1%} on average, {self.covered.worst - 1:.1%} at worst"
            yield f"{len(names)} configs for all shapes lose {loss}:"
            for config, name in names.items():
                yield f"  {name}: {config}"
            slowdown = f" (loses {self.rule_slowdown - 1:.1%} on average)" if self.rule_slowdown else ""
            yield f"the rule that chooses among them{slowdown}:"
            yield from self.rule.lines(names, "  ")
        yield from (f"wrote {path}" for path in self.files)


def describe(shape: ShapeResult, with_error: bool = False) -> str:
    """A shape's result in words; a long config is cut."""
    if shape.config is None:
        return f"no choice: {shape.error}"
    parts = [shape.chosen] if shape.time_ms is None else []
    if (speed := shape.teraflops(shape.time_ms)) is not None and shape.time_ms is not None:
        parts.append(f"{shape.time_ms:.4f} ms, {speed:.1f} TFLOP/s")
    if shape.gain is not None:
        parts.append(f"{shape.gain:.2f}x the analytic choice")
    if shape.over_baseline is not None:
        beside = shape.teraflops(shape.baseline_ms)
        parts.append(f"{shape.over_baseline:.2f}x cuBLAS ({beside:.1f} TFLOP/s)")
    if shape.over_library is not None:
        beside = shape.teraflops(shape.library_ms)
        parts.append(f"{shape.over_library:.2f}x {NAME} ({beside:.1f} TFLOP/s)")
    if shape.shape.experts and shape.reference_ms and shape.time_ms:
        parts.append(f"{shape.reference_ms / shape.time_ms:.2f}x PyTorch, expert by expert")
    if with_error and shape.max_error is not None:
        parts.append(f"largest error {shape.max_error:.1e}")
    return f"{', '.join(parts)} ({result.shortened(str(Config(shape.config)))})"


def geomean(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean of the known values; None if there are none."""
    present = [value for value in values if value]
    return statistics.geometric_mean(present) if present else None
