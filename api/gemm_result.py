"""What `tune gemm` found."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..tuners.gemm.cover import Cover
from ..tuners.gemm.result import ShapeResult
from ..tuners.gemm.rule import Rule
from .options.gemm import GemmOptions


@dataclass(frozen=True)
class GemmResult:
    """What a sweep found, and its files."""

    options: GemmOptions
    device: str
    folder: Path
    shapes: tuple[ShapeResult, ...]
    refused: tuple[str, ...]
    """Entries of the file of sizes that were left out, and why."""
    files: tuple[Path, ...] = ()
    """The engine's."""
    covered: Cover | None = None
    rule: Rule | None = None
    rule_slowdown: float | None = None
    """Geometric mean of the rule's time over the best, on the shapes that it was made of."""

    @property
    def failed(self) -> list[ShapeResult]:
        """The shapes without a choice."""
        return [one for one in self.shapes if one.config is None]

    def summary(self) -> dict[str, Any]:
        """The result as plain data; times in milliseconds."""
        return {
            "product": self.options.product,
            "dtype": self.options.chosen_dtype,
            "device": self.device,
            "shapes": [one.to_json() for one in self.shapes],
            "refused": list(self.refused),
            "times_the_analytic_choice": geomean([one.gain for one in self.shapes]),
            "times_the_baseline": geomean([one.over_baseline for one in self.shapes]),
            "files": [str(path) for path in self.files],
            "sweep": str(self.folder / "sweep.json"),
            **({"configs": self.few()} if self.covered else {}),
        }

    def few(self) -> dict[str, Any] | None:
        """The configs that serve all shapes, as plain data."""
        if self.covered is None or self.rule is None:
            return None
        return {
            "configs": [dict(one) for one in self.covered.configs],
            "slowdown": self.covered.slowdown,
            "worst": self.covered.worst,
            "rule": self.rule.to_json(),
            "rule_slowdown": self.rule_slowdown,
        }


def geomean(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean of those that are there; None of none."""
    present = [value for value in values if value]
    return statistics.geometric_mean(present) if present else None
