"""What a worker that runs a kernel's source may answer: that code is not trusted, so its answers are checked."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ...core import KernelProfile, Rejection
from ..guards.torch_share import Operator

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Response(BaseModel):
    """What every answer may carry: rules that the candidate broke since the last one."""

    violations: list[Rejection] = []


class LoadResponse(Response):
    """The source was executed and ModelNew constructed."""


class OutputTensor(BaseModel):
    """One output: all but the type are None for what is no tensor."""

    model_config = ConfigDict(extra="forbid")

    type: str
    shape: list[int] | None
    dtype: str | None = None
    device: str | None = None
    stored: bool = False
    handle: list[int | str | bool] | None = None
    """Where on the device it lies, when it is shared and not written to a file."""
    offset: int = 0


class OutputsResponse(Response):
    """Where outputs are: in a file, or in memory that is shared."""

    outputs: list[OutputTensor]

    def described(self) -> list[dict[str, Any]]:
        """The outputs as the judge reads them."""
        return [output.model_dump() for output in self.outputs]


class RunResponse(OutputsResponse):
    """One call, its outputs, and the numbers of the inputs that it changed or returned."""

    seconds: Seconds
    changed: list[int]
    returned: list[int]
    weights: list[int]


class TimeResponse(Response):
    """Times of single calls."""

    samples_ms: list[Milliseconds] = Field(min_length=1)
    host_ms: list[Milliseconds]
    cores: float = Field(ge=0, allow_inf_nan=False)
    method: str
    calls: int = Field(ge=1)
    """How many inputs were drawn from the seed before the last call, with that of the last call."""


class OperatorsResponse(Response):
    """What one call of the model asks of torch, and which kernels of its own it launches how often."""

    operators: list[Operator]
    launches: dict[str, int]
    own_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    """Time within these; None on a GPU, which computes after they return."""
    call_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ProfileResponse(Response):
    """What ran on the device in one call."""

    profile: KernelProfile


class CompileResponse(BaseModel):
    """A kernel compiled ahead: see `compiling.Compiled`."""

    seconds: Seconds
    digest: str = Field(pattern="^[0-9a-f]{64}$")
