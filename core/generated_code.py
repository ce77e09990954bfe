"""What torch's compiler made of a reference: its text, and what is needed to read it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class GeneratedCode(BaseModel):
    """The code of `torch.compile` for a problem, as `evaluators.reference.inductor` returns it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    """The Python module that Inductor wrote: Triton kernels as texts, and `call`, which launches them."""
    weights: tuple[str, ...]
    """Names of the parameters and buffers that are the first arguments of `call`, in order."""
    inputs: tuple[int, ...]
    """Positions of `forward`'s arguments that are tensors: the other arguments of `call`."""
    form: Literal["tensor", "tuple", "list"]
    configs: dict[str, tuple[dict[str, int], ...]]
    """By kernel: the configs that Inductor would try, the one that it takes unmeasured first."""
    helpers: dict[str, str]
    """Inductor's own Triton functions that the kernels call, each after those that it calls."""
