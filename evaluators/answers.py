"""What a worker that runs a kernel's source may answer: that code is not trusted, so its answers are checked."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Loaded(BaseModel):
    """The source was executed and ModelNew constructed."""


class Output(BaseModel):
    """One output: shape and dtype are None for what is no tensor."""

    model_config = ConfigDict(extra="forbid")

    type: str
    shape: list[int] | None
    dtype: str | None
    handle: list[int | str | bool] | None = None
    """Where on the device it lies, when it is shared and not written to a file."""
    offset: int = 0


class Ran(BaseModel):
    """One call, and where its outputs are: in a file, or in memory that is shared."""

    seconds: Seconds
    outputs: list[Output]

    def described(self) -> list[dict[str, Any]]:
        """The outputs as the judge reads them."""
        return [output.model_dump() for output in self.outputs]


class Timed(BaseModel):
    """Times of single calls."""

    samples_ms: list[Milliseconds] = Field(min_length=1)
    cores: float = Field(ge=0, allow_inf_nan=False)
    method: str


class Lowered(BaseModel):
    """A kernel compiled ahead: see `compiling.Compiled`."""

    seconds: Seconds
    digest: str = Field(pattern="^[0-9a-f]{64}$")
