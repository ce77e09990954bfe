"""How long, how much, how exactly: the settings of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    patience_s: float = 10.0
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
class Settings:
    """All settings of a local evaluation."""

    trials: int = 3
    """Comparisons with the reference, each with new weights and new inputs."""
    limits: Limits = field(default_factory=Limits)
    sampling: Sampling = field(default_factory=Sampling)
