"""A proposer's result, from rules or from a language model."""

from __future__ import annotations

from dataclasses import dataclass

from .kernel import Kernel
from .space import Config, SearchSpace


@dataclass(frozen=True)
class Proposal:
    """A kernel to try, the parameters worth searching in it, and why."""

    kernel: Kernel
    strategy: str
    """A short name: the rule's, or the model's own."""
    category: str
    """The bottleneck it addresses: memory, compute, parallelism or algorithm."""
    rationale: str
    """One or two sentences: what was changed, and why it should help."""
    space: SearchSpace | None = None
    """The parameters to search; None evaluates the kernel unchanged."""
    first: tuple[Config, ...] = ()
    """Members of the space to measure before the tuner chooses."""
