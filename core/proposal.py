"""What a proposer answers, whether rules or a language model wrote it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .kernel import Kernel
from .space import Config, SearchSpace


@dataclass(frozen=True)
class Proposal:
    """A kernel to try, the parameters worth searching in it, and why."""

    kernel: Kernel
    strategy: str
    """A short name: the rule that fired, or the model's own word."""
    category: str
    """The bottleneck it is aimed at: memory, compute, parallelism or algorithm."""
    rationale: str
    """One or two sentences: what was done, and why it should help."""
    space: SearchSpace | None = None
    """What to search; None measures the kernel as it stands."""
    first: tuple[Config, ...] = field(default=())
    """Members of the space to measure before the tuner chooses."""
