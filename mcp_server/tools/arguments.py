"""The arguments that several tools take, with what a model reads about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypeAlias

from mcp.server.mcpserver import Context
from pydantic import Field

from ..progress import Report

Kernel: TypeAlias = Annotated[
    str,
    Field(
        description="A kernel file with `class ModelNew` (its path in the server's folder), a shipped kernel such as "
        "level1/1_23, or a function path/to/ops.py::swiglu."
    ),
]
Problem: TypeAlias = Annotated[
    str | None,
    Field(
        description="The problem that a kernel file solves: a shipped one such as level1/1_23, or a file with `class "
        "Model`, get_inputs and get_init_inputs. By default what the kernel's docstring or file name says."
    ),
]
Workload: TypeAlias = Annotated[
    str | None,
    Field(
        description="Sizes: a workload's name such as tiny, or batch_size=4,dim=512. By default those of the device."
    ),
]
Backend: TypeAlias = Annotated[
    Literal["tilelang_cpu", "tilelang", "triton"] | None,
    Field(description="Which shipped kernel is meant, where `kernel` names one; by default the device's."),
]
Reference: TypeAlias = Annotated[
    str | None,
    Field(description="For a function as kernel: the torch function that computes the same, path/to/ops.py::ref."),
]
Inputs: TypeAlias = Annotated[
    str | None,
    Field(description="For a function as kernel: what makes its arguments from a seed, path/to/bench.py::inputs."),
]
Seconds: TypeAlias = Annotated[
    float | None, Field(description="Begin no new work after this many seconds; by default the server's limit.")
]
Trials: TypeAlias = Annotated[
    int | None, Field(description="At most this many evaluations; by default, and at most, the server's limit.")
]
Value: TypeAlias = bool | int | float | str

Call: TypeAlias = Context[Any, Any]
Tool: TypeAlias = Callable[..., Awaitable[Any]]


def reporting(call: Call) -> Report:
    """How a call reports progress; without effect where its client asked for none."""

    async def report(progress: float, total: float | None, text: str) -> None:
        await call.report_progress(progress, total, text)

    return report
