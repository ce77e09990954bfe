"""The interface of a rewrite rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import libcst as cst

from ...core import Parameter, PythonKernel, SearchSpace


@dataclass(frozen=True)
class Machine:
    """What a rule knows about the target device."""

    cores: int
    multiprocessors: int | None = None
    """Of a GPU; None where they are not known."""


@dataclass(frozen=True)
class Rewritten:
    """A rewritten kernel and the parameters that the rule introduced."""

    kernel: PythonKernel
    did: str
    """The change, in one sentence."""
    parameters: tuple[Parameter, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def space(self) -> SearchSpace | None:
        """The search space of the introduced parameters, or None without any."""
        return SearchSpace(self.parameters, self.constraints) if self.parameters else None


class Rule(Protocol):
    """A rewrite that applies where its preconditions hold."""

    name: str
    category: str
    """The bottleneck it addresses: memory, compute, parallelism or algorithm."""
    work: str
    """The work it speeds up: 'products' (matrix products, convolutions), 'streams' (all else) or 'both'."""
    why: str
    """Why it should help, in one sentence."""

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the rewritten kernel, or None where a precondition does not hold."""
        ...


def with_source(kernel: PythonKernel, module: cst.Module) -> PythonKernel:
    """Return the kernel with the source of `module`."""
    return replace(kernel, source=module.code)


def powers_of_two(low: int, high: int) -> Sequence[int]:
    """Return 1, 2, 4, ... within the bounds, and `high` itself."""
    values = {2**i for i in range(high.bit_length() + 1) if low <= 2**i <= high}
    return sorted(values | {high})
