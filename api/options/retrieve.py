"""The options of `retrieve`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .groups import Backend, EarlierRunsOptions
from .option import described, option


@dataclass(frozen=True, kw_only=True)
class RetrieveOptions(EarlierRunsOptions):
    """Find worked optimizations."""

    text: str = field(
        default="",
        kw_only=False,
        metadata=described("A symptom, a technique or an idea, in words.", metavar="TEXT"),
    )
    k: int = option(3, "Maximum number of examples.", at_least=1)
    kernel: str | None = option(
        None,
        "The kernel to improve: a path, level2/2_10.py, 2_10. Its own problem is left out.",
        metavar="REF",
        trusted=True,
    )
    backend: Backend | None = option(None, "Examples of one backend; by default the kernel's, or all.")
    category: str | None = option(None, "The bottleneck: memory, compute, parallelism or algorithm.")
    operation: str | None = option(None, "What is computed: matmul, softmax, layernorm, ...")
    device: str | None = option(None, "The device's name, as measurements of examples give it, such as 'NVIDIA H200'.")
    results: Path = option(Path("results"), "Folder of earlier runs, whose findings are searched too.")
