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
    "host_us", "sanitizer", "library", "stages_s", "peak_memory_bytes", "workloads",
)  # fmt: skip


class Metrics(BaseModel):
    """Metrics of a kernel without samples. Metrics that were not measured are None."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    status: Status
    latency_ms: float | None = None
    """Median time of a call in milliseconds."""
    reference_ms: float | None = None
    """Time of the reference in milliseconds, timed interleaved with the kernel."""
    speedup: float | None = None
    """Speedup over the reference."""
    interval: tuple[float, float] | None = None
    """Interval of the speedup, from the 95 % intervals of both medians."""
    speedup_default: float | None = None
    """Speedup over eager PyTorch with its defaults; None in older records."""
    interval_default: tuple[float, float] | None = None
    speedup_compile: float | None = None
    """Speedup over `torch.compile`; omitted if it was not measured."""
    interval_compile: tuple[float, float] | None = None
    precision: Precision = "fp32"
    """Precision of the reference."""
    default_is_reference: bool = False
    """Whether the reference uses PyTorch's defaults, so that both speedups are equal."""
    host_us: float | None = None
    """Host time of a call in microseconds; on a CPU it is part of the call's time."""
    contention: float | None = None
    """Cores that other processes kept busy, if that made the metrics unreliable."""
    packing_ms: float | None = None
    """Time to pack a set of weights in milliseconds; omitted if the kernel packs none."""
    replay: Replay | None = None
    """None in a search, and if nothing was timed."""
    library: tuple[str, ...] = ()
    """Torch's operators that compute in a call; omitted if there are none."""
    sanitizer: dict[str, str] = Field(default_factory=dict)
    """Result of each tool of compute-sanitizer; omitted if none was run."""
    workloads: dict[str, Metrics] = Field(default_factory=dict)
    """Metrics by workload if several are judged together. The other fields are then geometric means."""

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
        """Whether the kernel was timed without disturbance."""
        return self.latency_ms is not None and self.contention is None

    def speedup_against(self, baseline: str) -> float | None:
        """Return the speedup over a baseline of `core.baselines`; None if it was not measured."""
        if baseline == reference_name(self.precision):
            return self.speedup
        return {DEFAULT: self.speedup_default, COMPILE: self.speedup_compile}.get(baseline)

    def interval_against(self, baseline: str) -> tuple[float, float] | None:
        """Return the interval of `speedup_against`."""
        if baseline == reference_name(self.precision):
            return self.interval
        return {DEFAULT: self.interval_default, COMPILE: self.interval_compile}.get(baseline)

    def to_json(self) -> dict[str, Any]:
        """Return the object that --json and the history show."""
        return self.model_dump(mode="json")


class EvaluationSummary(Metrics):
    """An evaluation without its samples, log and environment. Fields that were not determined are omitted."""

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
    """Times of other ways to run the reference, in milliseconds."""
    second_workload: SecondWorkload | None = None
    telemetry: dict[str, float] = Field(default_factory=dict)
    stages_s: dict[str, float] = Field(default_factory=dict)
    peak_memory_bytes: int | None = None
