"""The result of evaluating one kernel and config. Invalid combinations cannot be built."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from .baselines import COMPILE, DEFAULT, Precision, reference_name
from .kernel_profile import KernelProfile
from .measurement import Measurement, Speedup
from .metrics import EvaluationSummary, Metrics
from .space import Value
from .verdict import Correctness, Origin, Rejection, Replay, SecondWorkload, Status, judged

CHECKED_NOT_TIMED = "checked, not timed"


class Evaluation(BaseModel):
    """The result of an evaluation. A speedup exists only where the outputs were correct, and counts only with status
    ok."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Status
    kernel_digest: str
    config: dict[str, Value] = Field(default_factory=dict)
    origin: Origin = Origin.MEASURED
    """Records without this field were measured."""
    message: str = ""
    """One line: the failure, or a remark such as 'checked, not timed'."""
    log: str = ""
    """The last lines of the kernel's and its compiler's output."""
    correctness: Correctness | None = None
    measurement: Measurement | None = None
    packing: Measurement | None = None
    """What it takes to pack the weights, once for each set of them; None where a kernel packs none, and in a search."""
    reference: Measurement | None = None
    compile_s: float | None = Field(default=None, ge=0)
    cores_used: float | None = Field(default=None, ge=0)
    """Processor time over wall time while the kernel was timed; None off the CPU."""
    host_us: float | None = Field(default=None, ge=0)
    """Microseconds that a call takes the host in the kernel's own process; on a CPU beside its launches and torch's
    operators, and then part of the times. None where the kernel was not replayed, and in older records."""
    contention: float | None = Field(default=None, ge=0)
    """Cores that other processes kept busy while it was timed, where that makes the metrics unreliable, or the times
    vary too much."""
    code_digest: str | None = None
    """Identifies the code that the config compiles to, where known."""
    duplicate_of: dict[str, Value] | None = None
    """The config with the same code that was measured instead."""
    rejection: Rejection | None = None
    """With status 'rejected', unless another tool's record gave no reason."""
    baselines: dict[str, Measurement] = Field(default_factory=dict)
    """Other ways to run the reference, such as 'default', 'compile' and 'max-autotune', timed on the same device."""
    precision: Precision = "fp32"
    """How exactly the reference computed, and the kernel had to."""
    default_is_reference: bool = False
    """Whether the reference computes as PyTorch does by default, so that 'default' is not timed apart from it."""
    second_workload: SecondWorkload | None = None
    """None where not tested: in a search, or where the problem has no other sizes."""
    telemetry: dict[str, float] = Field(default_factory=dict)
    """State of the GPU while it was timed: sm_mhz, memory_mhz, temperature_c, power_w, each a median."""
    kernel_profile: KernelProfile | None = None
    """What ran on the device, and the resources of the compiled kernels; None where not profiled."""
    replay: Replay | None = None
    """None in a search, and where nothing was timed."""
    stages: dict[str, float] = Field(default_factory=dict)
    """Seconds of each stage of the evaluation."""
    peak_memory_bytes: int | None = Field(default=None, ge=0)
    """The most device memory that candidate and reference held: the sum of both processes' peaks, which need not be at
    the same time, without what CUDA itself takes. None on a CPU."""
    environment: dict[str, str] = Field(default_factory=dict)
    workloads: dict[str, Metrics] = Field(default_factory=dict)
    """Of several workloads judged together, each by its name; the times are their geometric means then."""

    @model_serializer(mode="wrap")
    def _without_what_is_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {name: value for name, value in found.items() if name not in ("workloads", "packing") or value}

    @model_validator(mode="before")
    @classmethod
    def _unproven_without_a_replay(cls, given: Any) -> Any:
        found = judged(given)
        if found is not given:
            why = Replay.model_validate(found["replay"]).why_not
            found["message"] = "; ".join(filter(None, [why, found.get("message")]))
        return found

    @model_validator(mode="after")
    def _consistent(self) -> Evaluation:
        passed = self.correctness is not None and self.correctness.passed
        if self.correct and not passed:
            raise ValueError(f"status {self.status} needs a comparison that passed")
        if self.status is Status.UNPROVEN and (self.replay is None or self.replay.counts):
            raise ValueError("status unproven needs a replay that failed")
        if not self.correct and self.measurement is not None:
            raise ValueError(f"status {self.status} carries no timing: only correct results have a speed")
        if self.status is not Status.OK and not self.message:
            raise ValueError(f"status {self.status} needs a message that says what went wrong")
        if self.rejection is not None and self.status is not Status.REJECTED:
            raise ValueError(f"status {self.status} has no rule that was broken")
        if self.reference is not None and self.measurement is None:
            raise ValueError("a reference timing without the kernel's own says nothing")
        return self

    @property
    def ok(self) -> bool:
        """Whether the kernel is correct, and proven where it was timed in full: whether it is a result."""
        return self.status is Status.OK

    @property
    def correct(self) -> bool:
        """Whether its results were correct, proven or not."""
        return self.status in (Status.OK, Status.UNPROVEN)

    def accepted(self) -> Evaluation:
        """Return the evaluation of an unproven kernel as ok, since the user accepts it; any other as it is."""
        if self.status is not Status.UNPROVEN or self.replay is None:
            return self
        message = self.message.removeprefix(self.replay.why_not).removeprefix("; ")
        replay = self.replay.model_copy(update={"accepted": True})
        return self.model_copy(update={"status": Status.OK, "message": message, "replay": replay})

    @property
    def shape_specialised(self) -> bool:
        """Whether the kernel is correct at the sizes it was timed at and at no others that were tested."""
        return self.ok and self.second_workload is not None and self.second_workload.status is not Status.OK

    @property
    def latency_ms(self) -> float | None:
        """Median milliseconds of one call, or None when it was not timed."""
        return self.measurement.median_ms if self.measurement else None

    @property
    def speedup(self) -> Speedup | None:
        """Speedup over the reference timed interleaved with it, or None when either was not timed."""
        if self.measurement is None or self.reference is None:
            return None
        return Speedup.between(self.reference, self.measurement)

    def gain_over(self, start: Evaluation) -> Speedup | None:
        """Return how many times as fast as another one this is; None unless one run timed both beside one reference."""
        if start.measurement is None or self.measurement is None or start.reference != self.reference:
            return None
        if (start.kernel_digest, start.config) == (self.kernel_digest, self.config):
            return Speedup(ratio=1.0, low=1.0, high=1.0)
        return Speedup.between(start.measurement, self.measurement)

    @property
    def speedup_default(self) -> Speedup | None:
        """Speedup over eager PyTorch with its own defaults, or None when either was not timed."""
        return self.speedup if self.default_is_reference else self._over(DEFAULT)

    def speedup_against(self, baseline: str) -> Speedup | None:
        """Return the speedup over a baseline of `core.baselines`, or None when either was not timed."""
        if baseline == reference_name(self.precision):
            return self.speedup
        return self.speedup_default if baseline == DEFAULT else self._over(baseline)

    def _over(self, name: str) -> Speedup | None:
        timed = self.baselines.get(name)
        return Speedup.between(timed, self.measurement) if timed and self.measurement else None

    def metrics(self) -> Metrics:
        """Status, times and speedup."""
        speedup, default, compiled = self.speedup, self.speedup_default, self._over(COMPILE)
        return Metrics(
            status=self.status,
            latency_ms=self.latency_ms,
            reference_ms=self.reference.median_ms if self.reference else None,
            speedup=speedup.ratio if speedup else None,
            interval=(speedup.low, speedup.high) if speedup else None,
            speedup_default=default.ratio if default else None,
            interval_default=(default.low, default.high) if default else None,
            speedup_compile=compiled.ratio if compiled else None,
            interval_compile=(compiled.low, compiled.high) if compiled else None,
            precision=self.precision,
            default_is_reference=self.default_is_reference,
            host_us=self.host_us,
            contention=self.contention,
            packing_ms=self.packing.median_ms if self.packing else None,
            replay=self.replay,
            workloads=self.workloads,
        )

    def summary(self) -> EvaluationSummary:
        """What the history shows of it."""
        correctness = self.correctness
        return EvaluationSummary(
            **dict(self.metrics()),
            config=self.config,
            max_abs_error=correctness.max_abs_error if correctness else None,
            compile_s=self.compile_s,
            message=self.message,
            rejection=self.rejection,
            error_fp64=correctness.error_fp64 if correctness else None,
            deterministic=correctness.deterministic if correctness else None,
            distributions=correctness.distributions if correctness else (),
            trivial_outputs=correctness.trivial_outputs if correctness else (),
            special_values=correctness.special_values if correctness else None,
            other_strides=correctness.other_strides if correctness else None,
            baselines_ms={name: one.median_ms for name, one in self.baselines.items()},
            second_workload=self.second_workload,
            telemetry=self.telemetry,
            stages_s=self.stages,
            peak_memory_bytes=self.peak_memory_bytes,
        )
