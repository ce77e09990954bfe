"""The verdict of an evaluation: status, correctness, broken rule, and replay."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

NOT_REPLAYED = "not replayed"


class Status(StrEnum):
    """How an evaluation ended."""

    OK = "ok"
    """Correct. If it was timed in full, its launches were replayed without its Python."""
    UNPROVEN = "unproven"
    """The kernel's own calls are correct, but its launches could not be replayed without its Python. Its times may
    include something else, so they do not count."""
    REJECTED = "rejected"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_VALUE = "wrong_value"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    NOT_MEASURED = "not_measured"
    """No verdict: what was tried failed for a cause on the machine's side or on ours, which the message names. It is
    neither cached nor learned from, and a resumed run measures it."""


class Origin(StrEnum):
    """Origin of an evaluation."""

    MEASURED = "measured"
    """The kernel ran."""
    RECORDED = "recorded"
    """Measured earlier, here or by another tool."""
    SIMULATED = "simulated"
    """Computed by a model; no kernel ran."""


LESS_EXACT = 50.0
"""A kernel whose error exceeds the reference's by this factor computes in a lower precision. Three bf16 products have
about 30 times the error of fp32, TF32 more than a thousand times."""


class Correctness(BaseModel):
    """The results of the comparisons with the reference."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seeds: tuple[int, ...] = Field(min_length=1)
    """Seeds of the comparisons, drawn for this run and recorded after it."""
    max_abs_error: float = Field(ge=0)
    max_rel_error: float = Field(ge=0)
    """Largest absolute error over the largest magnitude of the reference."""
    own_errors: tuple[float, float] | None = None
    """Both errors on the problem's own inputs only; other distributions may have other magnitudes.

    None in older records.
    """
    tolerance: float = Field(ge=0)
    """Relative tolerance of the comparison, and the absolute one if `absolute_tolerance` is None."""
    absolute_tolerance: float | None = Field(default=None, ge=0)
    passed: bool
    distributions: tuple[str, ...] = ()
    """Further comparisons: input distributions besides the problem's own ('signs', 'small', 'large', 'heavy tails',
    'structure', 'times 1e+12'), and 'other weights'."""
    error_fp64: float | None = Field(default=None, ge=0)
    """Root mean square error against the reference in fp64, relative to that result's root mean square."""
    torch_error_fp64: float | None = Field(default=None, ge=0)
    """The same for the reference in its own precision."""
    beside_start: str = ""
    """Remark on errors of a user's function beyond the tolerance, which are about those that it had as it stood."""
    torch_as_start: str = ""
    """Remark on work that torch does for a user's function beyond the limits, and no more than it did as it stood."""
    trivial_outputs: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("trivial_outputs", "nulls"))
    """Trivial outputs that would pass every comparison, so that passing proves little: 'zeros', 'mean', 'input 0'."""
    deterministic: bool | None = None
    """Whether two calls with equal inputs returned equal bits; None if not tested."""
    special_values: str | None = None
    """Difference from the reference if inputs contain NaN and infinity; empty if equal, None if not tested. It is not a
    failure: many correct kernels use a maximum that drops NaN."""
    other_strides: str | None = None
    """The same for non-contiguous inputs. It is not a failure: many correct kernels require contiguous inputs."""

    @property
    def less_exact(self) -> str | None:
        """Remark on a lower precision than the reference's; None if it is not lower, or if errors are unknown."""
        own, torchs = self.error_fp64, self.torch_error_fp64
        if own is None or not torchs or own < LESS_EXACT * torchs:
            return None
        return (
            f"less exact than the reference: the error against fp64 is {own:.1e} of the result (root mean square), the "
            f"reference's {torchs:.1e}"
        )

    @property
    def own_error(self) -> float:
        """Largest absolute error on the problem's own inputs; in older records, on all inputs."""
        return self.own_errors[0] if self.own_errors else self.max_abs_error

    @property
    def checks(self) -> int:
        """Number of comparisons with the reference."""
        return len(self.seeds)


class Rejection(BaseModel):
    """A broken rule: the kernel does something that no correct kernel needs, so its results do not count."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    """The rule's name, such as 'torch-operator' or 'patched-function'; docs/guards.md lists them."""
    where: str
    """Place in the source, 'line 12: torch.mm(x, w)', or time of the violation, 'while it was timed'."""
    why: str
    """One sentence: what the rule protects, and the alternative."""

    def __str__(self) -> str:
        return f"{self.rule} ({self.where}): {self.why}"


class SecondWorkload(BaseModel):
    """The check of a kernel at sizes other than the timed ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sizes: dict[str, Any]
    status: Status
    message: str = ""


class Replay(BaseModel):
    """Whether a kernel was timed by replaying its launches in a process that never loaded its Python."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    replayed: bool
    reason: str = ""
    """Reason why it was not replayed."""
    steps: tuple[str, ...] = ()
    """The launch plan as text, a line per step."""
    depends_on: str = ""
    """'the launches depend on 3 integers read from counts'; empty if the sizes alone decide what is launched."""
    accepted: bool = False
    """Whether the user accepts the kernel anyway (`require_replay` off)."""

    @property
    def counts(self) -> bool:
        """Whether the times count as a result."""
        return self.replayed or self.accepted

    @property
    def why_not(self) -> str:
        """The message of an unproven kernel."""
        return f"{NOT_REPLAYED}: {self.reason}"

    @model_serializer(mode="wrap")
    def _without_what_is_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = handler(self)
        return {name: value for name, value in found.items() if value or name == "replayed"}


def judged(given: Any) -> Any:
    """Return the fields of a verdict with status unproven where they say ok of a kernel whose replay does not count.

    So does a record of before there was this status.
    """
    if not isinstance(given, Mapping) or given.get("status") != Status.OK or given.get("replay") is None:
        return given
    replay = Replay.model_validate(given["replay"])
    if replay.counts:
        return given
    return {**given, "status": Status.UNPROVEN}
