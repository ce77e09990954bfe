"""Options that several commands have: where a kernel runs, what it is compared with, what is written."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

WHERE = "Where it runs"
OUTPUT = "Output"


class Backend(StrEnum):
    TILELANG_CPU = "tilelang_cpu"
    TILELANG = "tilelang"
    TRITON = "triton"


DeviceOption = Annotated[
    str, typer.Option(help="cpu, cuda, cuda:N; auto takes a GPU if there is one.", rich_help_panel=WHERE)
]
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
ResultsOption = Annotated[Path, typer.Option(help="Folder for all that a run leaves.", rich_help_panel=OUTPUT)]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on where an earlier run stopped.", rich_help_panel=OUTPUT)
]
NoSaveOption = Annotated[
    bool, typer.Option("--no-save", help="Do not write the faster kernel.", rich_help_panel=OUTPUT)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.", rich_help_panel=OUTPUT)]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.", rich_help_panel=OUTPUT)]
