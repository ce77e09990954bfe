"""The verdict on one kernel and config. Combinations that make no sense cannot be built."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .measurement import Measurement, Speedup
from .space import Value


class Status(StrEnum):
    """How an evaluation ended."""

    OK = "ok"
    REJECTED = "rejected"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_VALUE = "wrong_value"
    TIMEOUT = "timeout"
    CRASHED = "crashed"


class Correctness(BaseModel):
    """What the comparison with the reference saw, over all trials."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seeds: tuple[int, ...] = Field(min_length=1)
    """One per trial that was compared, drawn for this run and written down after it."""
    max_abs_error: float = Field(ge=0)
    max_rel_error: float = Field(ge=0)
    """Largest absolute error over the largest magnitude of the reference."""
    tolerance: float = Field(ge=0)
    """Both the absolute and the relative tolerance of the comparison."""
    passed: bool

    @property
    def trials(self) -> int:
        return len(self.seeds)


class Evaluation(BaseModel):
    """What an evaluator found out. A speedup exists only where the results were right."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Status
    kernel_digest: str
    config: dict[str, Value] = Field(default_factory=dict)
    message: str = ""
    """One line: what went wrong, or a remark such as 'checked, not timed'."""
    log: str = ""
    """The last lines that the kernel and its compiler printed."""
    correctness: Correctness | None = None
    measurement: Measurement | None = None
    reference: Measurement | None = None
    compile_s: float | None = Field(default=None, ge=0)
    cores_used: float | None = Field(default=None, ge=0)
    """Processor time over wall time while the kernel was timed; None off the CPU."""
    contention: float | None = Field(default=None, ge=0)
    """Cores that other processes kept busy while it was timed, where that was too much to trust the figures."""
    code_digest: str | None = None
    """Stands for the code that the config lowers to, where that is known."""
    duplicate_of: dict[str, Value] | None = None
    """The config that lowers to the same code and was measured in its place."""
    environment: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Evaluation:
        passed = self.correctness is not None and self.correctness.passed
        if self.status is Status.OK and not passed:
            raise ValueError("status ok needs a comparison that passed")
        if self.status is not Status.OK and self.measurement is not None:
            raise ValueError(f"status {self.status} carries no timing: only right results have a speed")
        if self.status is not Status.OK and not self.message:
            raise ValueError(f"status {self.status} needs a message that says what went wrong")
        if self.reference is not None and self.measurement is None:
            raise ValueError("a reference timing without the kernel's own says nothing")
        return self

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    @property
    def latency_ms(self) -> float | None:
        """Median time of one call, or None when it was not timed."""
        return self.measurement.median_ms if self.measurement else None

    @property
    def speedup(self) -> Speedup | None:
        """Against the reference timed in turn with it, or None when either was not timed."""
        if self.measurement is None or self.reference is None:
            return None
        return Speedup.between(self.reference, self.measurement)


CHECKED_NOT_TIMED = "checked, not timed"
