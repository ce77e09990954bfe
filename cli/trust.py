"""How strictly kernels are judged: the options that every command which measures has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

import typer

from ..evaluators.settings import AllowTorch, Sandbox, Settings

TRUST = "Trust"


class Baseline(StrEnum):
    COMPILE = "compile"
    MAX_AUTOTUNE = "max-autotune"


AllowTorchOption = Annotated[
    AllowTorch,
    typer.Option(
        help="Which torch operators a kernel may call: none, glue (layout, allocation, and what the bottleneck is not "
        "in), or all.",
        rich_help_panel=TRUST,
    ),
]
SandboxOption = Annotated[
    Sandbox,
    typer.Option(
        help="What keeps a kernel from the rest of the machine: bwrap (bubblewrap), landlock, none; auto takes the "
        "first that works.",
        rich_help_panel=TRUST,
    ),
]
GraphOption = Annotated[
    bool,
    typer.Option(
        "--graph", help="Time kernel and reference as captured CUDA graphs, on a GPU only.", rich_help_panel=TRUST
    ),
]
BaselineOption = Annotated[
    list[Baseline] | None,
    typer.Option(
        help="Time the reference as torch compiles it, too: compile, max-autotune; may be repeated. Targets stay those "
        "against eager torch.",
        rich_help_panel=TRUST,
        metavar="NAME",
    ),
]


@dataclass(frozen=True)
class Trust:
    """The options together."""

    allow_torch: AllowTorch = AllowTorch.GLUE
    sandbox: Sandbox = Sandbox.AUTO
    graph: bool = False
    baselines: tuple[str, ...] = ()

    @classmethod
    def of(cls, allow_torch: AllowTorch, sandbox: Sandbox, graph: bool, baseline: Sequence[Baseline] | None) -> Trust:
        """From what the command line gave."""
        return cls(allow_torch, sandbox, graph, tuple(dict.fromkeys(one.value for one in baseline or ())))

    def applied(self, settings: Settings) -> Settings:
        """The settings of an evaluator, with these options in them."""
        return replace(
            settings,
            allow_torch=self.allow_torch,
            sandbox=self.sandbox,
            graph=self.graph,
            baselines=self.baselines,
        )


TRUSTED = Trust()
"""As strict as the tool is by default."""
