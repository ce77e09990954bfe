"""The result of a sweep for a shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...core import Config
from .shapes import Shape
from .stores.store import ConfigEntry

PINNED = "the engine's default, no config was faster"
MEASURED, KEPT, CHECKED = "measured", "analytic choice, no config was faster", "analytic choice, checked, not timed"


@dataclass(frozen=True)
class ShapeResult:
    """The choice for a shape. Times are medians in milliseconds, timed interleaved with each other."""

    shape: Shape
    config: Config | None = None
    chosen: str = MEASURED
    time_ms: float | None = None
    analytic_ms: float | None = None
    """The analytic choice's."""
    default_ms: float | None = None
    """The engine's default, timed interleaved with the choice."""
    reference_ms: float | None = None
    """The problem's PyTorch reference."""
    baseline_ms: float | None = None
    """cuBLAS at the same extents: for 8-bit operands in bf16."""
    library_ms: float | None = None
    """The library's own product of such operands (`library.NAME`), timed after the choice."""
    max_error: float | None = None
    """Largest error against the reference, relative to the largest expected value or to the element."""
    trials: int = 0
    seconds: float = 0.0
    error: str = ""
    """Why there is no choice."""
    environment: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[Config, float] = field(default_factory=dict)
    """Milliseconds of every config that was timed for this shape alone."""

    def teraflops(self, ms: float | None) -> float | None:
        """Return 1e12 operations per second for a time."""
        return self.shape.flops / ms / 1e9 if ms else None

    @property
    def gain(self) -> float | None:
        """Speedup over the analytic choice."""
        return self.analytic_ms / self.time_ms if self.analytic_ms and self.time_ms else None

    @property
    def over_baseline(self) -> float | None:
        """Speedup over cuBLAS."""
        return self.baseline_ms / self.time_ms if self.baseline_ms and self.time_ms else None

    @property
    def over_library(self) -> float | None:
        """Speedup over the library's own product of such operands."""
        return self.library_ms / self.time_ms if self.library_ms and self.time_ms else None

    @property
    def entry(self) -> ConfigEntry | None:
        """The choice as files take it."""
        return None if self.config is None else ConfigEntry(self.shape, self.config, self.time_ms, self.times)

    def with_times(self, times: Mapping[Config, float]) -> ShapeResult:
        """Return the same with further times."""
        return replace(self, times={**self.times, **times})

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without the single times, which the journal has."""
        shape = self.shape
        return {
            **shape.sizes,
            "layout": shape.layout,
            "config": dict(self.config) if self.config else None,
            "chosen": self.chosen if self.config else None,
            **{name: getattr(self, name) for name in _PLAIN},
            "tflops": self.teraflops(self.time_ms),
            "baseline_tflops": self.teraflops(self.baseline_ms),
            "times_the_analytic_choice": self.gain,
            "times_the_baseline": self.over_baseline,
            "times_the_library": self.over_library,
            "environment": dict(self.environment),
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> ShapeResult:
        """Read the object that `to_json` wrote."""
        routing = {"experts": found.get("E", 0), "top_k": found.get("TOP_K", 0)}
        shape = Shape(m=found["M"], n=found["N"], k=found["K"], layout=found["layout"], **routing)
        config = Config(found["config"]) if found["config"] else None
        plain = {name: found[name] for name in _PLAIN if name in found}
        return cls(shape, config, found["chosen"] or MEASURED, environment=found["environment"], **plain)


_PLAIN = (
    *("time_ms", "analytic_ms", "default_ms", "reference_ms", "baseline_ms", "library_ms"),
    *("max_error", "trials", "seconds", "error"),
)
