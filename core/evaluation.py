"""The result of evaluating one kernel and config. Invalid combinations cannot be built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from .baselines import COMPILE, DEFAULT, Precision, reference_name
from .kernel_profile import KernelProfile
from .measurement import Measurement, Milliseconds, Speedup
from .metrics import EvaluationSummary, Metrics
from .space import Value
from .verdict import Correctness, Origin, Rejection, Replay, SecondWorkload, Status, judged

CHECKED_NOT_TIMED = "checked, not timed"
CLEAN = "clean"
"""Result of a tool of compute-sanitizer that found nothing."""


_TRUSTED = Correctness(seeds=(0,), max_abs_error=0, max_rel_error=0, tolerance=0, passed=True)
"""Correctness of outputs that were compared elsewhere."""


class Evaluation(BaseModel):
    """The result of an evaluation. A speedup exists only for correct outputs, and counts only with status ok."""

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
    """Time to pack a set of weights; None in a search, and if the kernel packs none."""
    launches_ms: dict[str, Milliseconds] = Field(default_factory=dict)
    """In a search, where the source defines several kernels: the time of each one's launches in a call, by its name."""
    reference: Measurement | None = None
    compile_s: float | None = Field(default=None, ge=0)
    cores_used: float | None = Field(default=None, ge=0)
    """CPU time over wall time while the kernel was timed; None on a GPU."""
    host_us: float | None = Field(default=None, ge=0)
    """Host time of a call in the kernel's own process, in microseconds. On a CPU it excludes launches and torch
    operators, and is part of the times. None if the kernel was not replayed, and in older records."""
    contention: float | None = Field(default=None, ge=0)
    """Cores that other processes kept busy during timing, if that or the spread of the times makes them unreliable."""
    code_digest: str | None = None
    """Identifies the code that the config compiles to, if known."""
    duplicate_of: dict[str, Value] | None = None
    """The config with the same code, which was measured instead."""
    rejection: Rejection | None = None
    """Set with status 'rejected', unless the record of another tool gave no reason."""
    baselines: dict[str, Measurement] = Field(default_factory=dict)
    """Other ways to run the reference, such as 'default', 'compile' and 'max-autotune', timed on the same device."""
    precision: Precision = "fp32"
    """Precision of the reference, and required of the kernel."""
    default_is_reference: bool = False
    """Whether the reference uses PyTorch's defaults, so that 'default' is not timed separately."""
    second_workload: SecondWorkload | None = None
    """None if not tested: in a search, or if the problem has no other sizes."""
    telemetry: dict[str, float] = Field(default_factory=dict)
    """Medians of the GPU's state during timing: sm_mhz, memory_mhz, temperature_c, power_w."""
    kernel_profile: KernelProfile | None = None
    """Kernels on the device in one call, with the resources of compiled ones; None if not profiled."""
    replay: Replay | None = None
    """None in a search, and if nothing was timed."""
    library: tuple[str, ...] = ()
    """Torch's operators that compute in a call, by their short names: 'mm'. Empty in a search and without any."""
    sanitizer: dict[str, str] = Field(default_factory=dict)
    """Result of each tool of compute-sanitizer: 'clean', 'unclear: ...', 'not finished: ...' or 'not run: ...'.
    Empty if none was run. A finding is in `rejection`."""
    stages: dict[str, float] = Field(default_factory=dict)
    """Seconds of each stage of the evaluation."""
    peak_memory_bytes: int | None = Field(default=None, ge=0)
    """Peak device memory of candidate and reference: the sum of both processes' peaks, which need not coincide, without
    CUDA's own memory. None on a CPU."""
    environment: dict[str, str] = Field(default_factory=dict)
    workloads: dict[str, Metrics] = Field(default_factory=dict)
    """Metrics by workload if several are judged together. The times above are then geometric means."""

    @model_serializer(mode="wrap")
    def _without_what_is_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {
            name: value
            for name, value in found.items()
            if name not in ("workloads", "packing", "sanitizer", "launches_ms", "library") or value
        }

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

    @classmethod
    def recorded(
        cls,
        config: Mapping[str, Value],
        latency_ms: float | None,
        *,
        status: Status | None = None,
        message: str = "it failed",
        kernel_digest: str = "",
        compile_s: float | None = None,
    ) -> Evaluation:
        """Return the evaluation of a config that was measured and checked elsewhere, for `Tuner.tell`.

        A time of None is a failure, by default with status runtime_error. The outputs are trusted, since they cannot be
                compared any more.
        """
        timed = latency_ms is not None
        return cls(
            status=status or (Status.OK if timed else Status.RUNTIME_ERROR),
            kernel_digest=kernel_digest,
            config=dict(config),
            origin=Origin.RECORDED,
            message="" if timed else message,
            correctness=_TRUSTED if timed else None,
            measurement=Measurement(samples_ms=(latency_ms,), method="recorded") if latency_ms is not None else None,
            compile_s=compile_s,
        )

    @property
    def ok(self) -> bool:
        """Whether the kernel is a result: correct, and proven if it was timed in full."""
        return self.status is Status.OK

    @property
    def correct(self) -> bool:
        """Whether the outputs were correct, proven or not."""
        return self.status in (Status.OK, Status.UNPROVEN)

    @property
    def measured(self) -> bool:
        """Whether it is a verdict on the kernel; if not, the machine is why there is none."""
        return self.status is not Status.NOT_MEASURED

    def accepted(self) -> Evaluation:
        """Return the evaluation with an unproven kernel as ok, since the user accepts it."""
        if self.status is not Status.UNPROVEN or self.replay is None:
            return self
        message = self.message.removeprefix(self.replay.why_not).removeprefix("; ")
        replay = self.replay.model_copy(update={"accepted": True})
        return self.model_copy(update={"status": Status.OK, "message": message, "replay": replay})

    @property
    def shape_specialised(self) -> bool:
        """Whether the kernel is correct at the timed sizes only, and at no other tested sizes."""
        return self.ok and self.second_workload is not None and self.second_workload.status is not Status.OK

    @property
    def latency_ms(self) -> float | None:
        """Median time of a call in milliseconds; None if it was not timed."""
        return self.measurement.median_ms if self.measurement else None

    @property
    def speedup(self) -> Speedup | None:
        """Speedup over the reference, timed interleaved; None if either was not timed."""
        if self.measurement is None or self.reference is None:
            return None
        return Speedup.between(self.reference, self.measurement)

    def gain_over(self, start: Evaluation) -> Speedup | None:
        """Return the speedup over another evaluation; None unless both were timed in one run with one reference."""
        if start.measurement is None or self.measurement is None or start.reference != self.reference:
            return None
        if (start.kernel_digest, start.config) == (self.kernel_digest, self.config):
            return Speedup(ratio=1.0, low=1.0, high=1.0)
        return Speedup.between(start.measurement, self.measurement)

    @property
    def speedup_default(self) -> Speedup | None:
        """Speedup over eager PyTorch with its defaults; None if either was not timed."""
        return self.speedup if self.default_is_reference else self._over(DEFAULT)

    def speedup_against(self, baseline: str) -> Speedup | None:
        """Return the speedup over a baseline of `core.baselines`; None if either was not timed."""
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
            library=self.library,
            sanitizer=self.sanitizer,
            workloads=self.workloads,
        )

    def summary(self) -> EvaluationSummary:
        """The summary that the history shows."""
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
            baselines_ms={name: measurement.median_ms for name, measurement in self.baselines.items()},
            second_workload=self.second_workload,
            telemetry=self.telemetry,
            stages_s=self.stages,
            peak_memory_bytes=self.peak_memory_bytes,
        )
