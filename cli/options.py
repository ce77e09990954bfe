"""Options that several commands have: where a kernel runs, and what it is compared with."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

WHERE = "Where it runs"


class Backend(StrEnum):
    TILELANG_CPU = "tilelang_cpu"
    TILELANG = "tilelang"
    TRITON = "triton"


BackendOption = Annotated[
    Backend | None,
    typer.Option(help="Which shipped kernels; by default those of the device.", rich_help_panel=WHERE),
]
ProblemOption = Annotated[
    str | None,
    typer.Option(help="The problem a kernel file solves, if its name does not say.", rich_help_panel=WHERE),
]
DatasetOption = Annotated[
    Path | None, typer.Option(help="A KernelBench checkout to take the problems from.", rich_help_panel=WHERE)
]
WorkloadOption = Annotated[
    str | None, typer.Option(help="Sizes: a workload's name, or batch_size=4,dim=512.", rich_help_panel=WHERE)
]
