"""The valid responses of a worker that runs a kernel's source: that code is untrusted, so they are validated."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from ...core import KernelProfile, Rejection
from ..guards.measured_share import TorchOperator
from ..guards.torch_share import Operator
from ..workers.tensor_ipc import OutputTensor

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
MOST_SIGNATURES, MOST_PARAMETERS = 32, 256
Signature = Annotated[tuple[Annotated[str, Field(max_length=32)], ...], Field(max_length=MOST_PARAMETERS)]
"""The types of a kernel's parameters."""


class Response(BaseModel):
    """The common part of all responses: rules that the candidate broke since the last one."""

    violations: list[Rejection] = []


class LoadResponse(Response):
    """The source was executed and ModelNew constructed."""


class WeightsResponse(Response):
    """Whether the reference's weights could be read from shared memory; True where they came otherwise."""

    read: bool


class OutputsResponse(Response):
    """Where the outputs are: in a file, or in shared memory."""

    outputs: list[OutputTensor]

    def described(self) -> list[dict[str, Any]]:
        """Return the outputs in the form for the reference worker."""
        return [output.model_dump() for output in self.outputs]


class RunResponse(OutputsResponse):
    """One call: its outputs, the indices of inputs that it changed or returned, and the weights that it wrote to."""

    seconds: Seconds
    changed: list[int]
    returned: list[int]
    shared: list[int]
    weights: list[str]
    parts: list[str] = []
    """For a user's function: what it returned in addition to tensors (`user_call.result_parts`)."""


class TimeResponse(Response):
    """Times of single calls."""

    samples_ms: list[Milliseconds] = Field(min_length=1)
    host_ms: list[Milliseconds]
    cores: float = Field(ge=0, allow_inf_nan=False)
    method: str
    calls: int = Field(ge=1)
    """Number of inputs drawn from the seed, up to and including the last call's."""


class OperatorsResponse(Response):
    """One call's torch operators, and its own kernels with their numbers of launches."""

    operators: list[Operator]
    launches: dict[str, int]
    own_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    """Ms within the own kernels; None on a GPU, which computes after they return."""
    call_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class LaunchesResponse(Response):
    """The times of each kernel's launches in several calls, by its name."""

    samples_ms: dict[str, list[Milliseconds]]


class HostResponse(Response):
    """Host time of a call without its launches."""

    host_ms: Milliseconds


class RecordResponse(Response):
    """One call was recorded as a launch plan, or could not be."""

    reason: str | None
    constants: list[OutputTensor]
    changing: bool = False
    """Calls before it launched something else."""
    reads: bool = False
    """The call read integers into Python."""

    def described(self) -> list[dict[str, Any]]:
        """Return the constants in the form for the reference worker."""
        return [constant.model_dump() for constant in self.constants]


class LoadedPlan(Response):
    """A launch plan was compiled; `reason` says why not."""

    reason: str | None


class PreparedBatch(LoadedPlan):
    """A batch of calls is ready, or does not fit the plan; `read` is False where shared memory could not be opened.

    `remembers` says whether the calls of the batch before wrote to constants of the plan."""

    read: bool = True
    remembers: bool = False


class BatchResponse(Response):
    """Times of the calls of a batch, by the clock of the process that made them; or the reason why it could not."""

    reason: str | None = None
    samples_ms: list[Milliseconds] = []
    cores: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    method: str = ""


class BatchOutputs(Response):
    """The results of a batch's calls, and the side effects of its first call, where these were looked for."""

    outputs: list[list[OutputTensor]]
    form: str
    changed: list[int] = []
    returned: list[int] = []
    shared: list[int] = []
    weights: list[str] = []
    kept: list[int] = []
    """Outputs whose memory outlives the call."""

    def described(self) -> list[list[dict[str, Any]]]:
        """Return the outputs of each call in the form for the reference worker."""
        return [[output.model_dump() for output in call] for call in self.outputs]


class HeldSteps(Response):
    """The torch operators of one call, in order, without allocations and views."""

    steps: list[TorchOperator]


class StepsResponse(Response):
    """The work of the torch operators of one call."""

    operators: list[Operator]


class ProfileResponse(Response):
    """The kernels and copies that ran on the device in one call."""

    profile: KernelProfile


class CompileResponse(BaseModel):
    """A kernel compiled ahead: see `compilation.pool.CompileResult`."""

    seconds: Seconds
    digest: str = Field(pattern="^[0-9a-f]{64}$")
    signatures: tuple[Signature, ...] = Field((), max_length=MOST_SIGNATURES)
