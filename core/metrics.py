"""The metrics of an evaluation, without its samples: what the history, the report and `--json` show."""

from __future__ import annotations

from typing import Any

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from .baselines import COMPILE, DEFAULT, Precision, reference_name
from .space import Value
from .verdict import Rejection, Replay, SecondWorkload, Status, judged

_LOOKED_AT = (
    "packing_ms",
    "speedup_compile", "interval_compile", "rejection", "error_fp64", "deterministic", "distributions",
    "trivial_outputs", "special_values", "other_strides", "baselines_ms", "second_workload", "telemetry", "replay",
    "host_us", "stages_s", "peak_memory_bytes", "workloads",
)  # fmt: skip


class Metrics(BaseModel):
    """What was measured of a kernel, without the samples; None for what was not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Status
    latency_ms: float | None = None
    """Median time of one call."""
    reference_ms: float | None = None
    speedup: float | None = None
    """Over the reference."""
    interval: tuple[float, float] | None = None
    """In which the speedup lies, as the 95 % intervals of both medians allow."""
    speedup_default: float | None = None
    """Over eager PyTorch with its own defaults; None in records of before it was measured."""
    interval_default: tuple[float, float] | None = None
    speedup_compile: float | None = None
    """Over `torch.compile`; not written where that was not measured."""
    interval_compile: tuple[float, float] | None = None
    precision: Precision = "fp32"
    """How exactly the reference computed."""
    default_is_reference: bool = False
    """Whether both speedups are one: the reference computes as PyTorch does by default."""
    host_us: float | None = None
    """Microseconds that a call takes the host; on a CPU part of its time."""
    contention: float | None = None
    """Cores that other processes kept busy, where that was too much for reliable metrics."""
    packing_ms: float | None = None
    """Median time of packing the weights, once for each set of them; not written where a kernel packs none."""
    replay: Replay | None = None
    """None where nothing was timed, and in a search."""
    workloads: dict[str, Metrics] = Field(default_factory=dict)
    """Of several workloads judged together, each by its name; the other fields are their geometric means then."""

    @model_validator(mode="before")
    @classmethod
    def _unproven_without_a_replay(cls, given: Any) -> Any:
        return judged(given)

    @model_serializer(mode="wrap")
    def _without_what_was_not_looked_at(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {
            name: value for name, value in found.items() if name not in _LOOKED_AT or value not in (None, {}, [], ())
        }

    @property
    def trusted(self) -> bool:
        """Whether it was timed, and nothing disturbed that."""
        return self.latency_ms is not None and self.contention is None

    def speedup_against(self, baseline: str) -> float | None:
        """Return the speedup over a baseline of `core.baselines`; None where that was not measured."""
        if baseline == reference_name(self.precision):
            return self.speedup
        return {DEFAULT: self.speedup_default, COMPILE: self.speedup_compile}.get(baseline)

    def interval_against(self, baseline: str) -> tuple[float, float] | None:
        """Return the interval of `speedup_against`."""
        if baseline == reference_name(self.precision):
            return self.interval
        return {DEFAULT: self.interval_default, COMPILE: self.interval_compile}.get(baseline)

    def to_json(self) -> dict[str, Any]:
        """As --json and the history show it."""
        return self.model_dump(mode="json")


class EvaluationSummary(Metrics):
    """All of an evaluation but its samples, its log and its environment; what was not looked at is not written."""

    config: dict[str, Value] = Field(default_factory=dict)
    max_abs_error: float | None = None
    compile_s: float | None = None
    message: str = ""
    rejection: Rejection | None = None
    error_fp64: float | None = None
    deterministic: bool | None = None
    distributions: tuple[str, ...] = ()
    trivial_outputs: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("trivial_outputs", "nulls"))
    special_values: str | None = None
    other_strides: str | None = None
    baselines_ms: dict[str, float] = Field(default_factory=dict)
    second_workload: SecondWorkload | None = None
    telemetry: dict[str, float] = Field(default_factory=dict)
    stages_s: dict[str, float] = Field(default_factory=dict)
    peak_memory_bytes: int | None = None
