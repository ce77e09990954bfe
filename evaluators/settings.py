"""How long, how much, how exactly: the settings of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class AllowTorch(StrEnum):
    """Which of torch's operators a candidate may call."""

    NONE = "none"
    """None that compute: allocation and views only."""
    GLUE = "glue"
    """Layout, allocation, and operators that the bottleneck is not in."""
    ALL = "all"
    """Whatever it likes: nothing is looked at."""


class Sandbox(StrEnum):
    """What keeps a candidate from the rest of the machine."""

    AUTO = "auto"
    """The first of the following that works here, and a warning when it is none."""
    BWRAP = "bwrap"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True)
class Sampling:
    """When a timing is good enough.

    Samples are taken in chunks, candidate and reference in turn, until the 95 % interval of both
    medians is within `precision` or `seconds` have passed.
    """

    precision: float = 0.01
    seconds: float = 1.5
    min_samples: int = 20
    max_samples: int = 500
    chunk_s: float = 0.05
    quiet_timeout_s: float = 10.0
    """How long to wait for other processes to leave the processor alone before timing once more."""


@dataclass(frozen=True)
class Limits:
    """What a candidate may use before it is stopped."""

    compile_s: float = 120.0
    """For loading the source and the first call, in which most kernels compile."""
    call_s: float = 30.0
    """For each later step: a call, or a chunk of samples."""
    memory_gib: float = 8.0
    """Private memory of each process, beyond what the warm server holds."""
    file_gib: float = 8.0
    """The size of any file it writes."""


@dataclass(frozen=True)
class SearchSettings:
    """How one of many configs is judged in a search: quickly, since finalists are judged again."""

    compilers: int = 1
    """Processes that compile ahead."""
    window: int = 1
    """Configs that are in the compilers or wait for being measured, at most."""
    trials: int = 1
    """Comparisons with the reference, each with new inputs."""
    prune_factor: float = 2.0
    """A config whose first samples are so many times slower than the best is not timed any further."""
    sampling: Sampling = field(
        default_factory=lambda: Sampling(
            precision=0.005, seconds=0.3, max_samples=50, chunk_s=0.01, quiet_timeout_s=3.0
        )
    )


@dataclass(frozen=True)
class Settings:
    """All settings of a local evaluation."""

    trials: int = 3
    """Comparisons with the reference, each with new weights and new inputs."""
    limits: Limits = field(default_factory=Limits)
    sampling: Sampling = field(default_factory=Sampling)
    compile_ahead: bool = False
    """On a GPU, compile before the device is locked, so that others may measure meanwhile; it takes a process more."""
    second_workload: bool = True
    """Whether a right kernel is tried at other sizes too, where the problem has some."""
    graph: bool = False
    """On a GPU, time candidate and reference as captured CUDA graphs, without what launching costs."""
    baselines: tuple[str, ...] = ()
    """Other ways to run the reference that are timed too: 'compile', 'max-autotune'. Known ones are always reported."""
    allow_torch: AllowTorch = AllowTorch.GLUE
    sandbox: Sandbox = Sandbox.AUTO
    search: SearchSettings | None = None
    """Judge configs as a search needs it, without timing the reference; None judges each one fully."""
