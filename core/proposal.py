"""The result of a proposer, from rules or from a language model."""

from __future__ import annotations

from dataclasses import dataclass

from .kernel import Kernel
from .space import Config, SearchSpace


@dataclass(frozen=True)
class Proposal:
    """A kernel to try, the parameters to search, and the rationale."""

    kernel: Kernel
    strategy: str
    """Short name: the rule's name, or one that the model chose."""
    category: str
    """The bottleneck it addresses: memory, compute, parallelism or algorithm."""
    rationale: str
    """One or two sentences on what changed and why it should help."""
    space: SearchSpace | None = None
    """The parameters to search; None to evaluate the kernel unchanged."""
    first: tuple[Config, ...] = ()
    """Members of the space to measure before the tuner chooses."""
