"""Code that torch's compiler generated for a reference, with what is needed to read it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class GeneratedCode(BaseModel):
    """The code of `torch.compile` for a problem, as `evaluators.reference.inductor` returns it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    """Inductor's Python module: Triton kernels as strings, and `call`, which launches them."""
    weights: tuple[str, ...]
    """Names of the parameters and buffers that are the first arguments of `call`, in order."""
    inputs: tuple[int, ...]
    """Positions of the tensors among `forward`'s arguments; they are the remaining arguments of `call`."""
    form: Literal["tensor", "tuple", "list"]
    configs: dict[str, tuple[dict[str, int], ...]]
    """By kernel, the configs that Inductor would try. The first one is its choice without measuring."""
    helpers: dict[str, str]
    """Triton functions of Inductor that the kernels call. Each comes after the functions that it calls."""
