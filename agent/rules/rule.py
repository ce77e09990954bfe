"""What a rewrite rule is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import libcst as cst

from ...core import Language, Parameter, PythonKernel, SearchSpace, Target
from .source import names, parse


@dataclass(frozen=True)
class Machine:
    """What a rule may know of the device that it writes for."""

    cores: int


@dataclass(frozen=True)
class Rewritten:
    """A kernel that a rule rewrote, and the parameters that came with it."""

    kernel: PythonKernel
    did: str
    """What was changed, in one sentence."""
    parameters: tuple[Parameter, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def space(self) -> SearchSpace | None:
        return SearchSpace(self.parameters, self.constraints) if self.parameters else None


class Rule(Protocol):
    """A rewrite that applies where its preconditions hold, and says so."""

    name: str
    category: str
    """The bottleneck it is aimed at: memory, compute, parallelism or algorithm."""
    work: str
    """What it makes faster: 'products' (matrix products, convolutions), 'streams' (all else) or 'both'."""
    why: str
    """Why it should help, in one sentence."""

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """The rewritten kernel, or None where a precondition does not hold."""
        ...


def is_cpu_tilelang(kernel: PythonKernel) -> bool:
    return kernel.language is Language.TILELANG and kernel.target is Target.CPU


def tree_and_names(kernel: PythonKernel) -> tuple[cst.Module, set[str]]:
    """The syntax tree and all names that are taken."""
    module = parse(kernel.source)
    return module, names(module)


def with_source(kernel: PythonKernel, module: cst.Module) -> PythonKernel:
    return replace(kernel, source=module.code)


def powers_of_two(low: int, high: int) -> Sequence[int]:
    """1, 2, 4, ... within the bounds, and `high` itself."""
    values = {2**i for i in range(high.bit_length() + 1) if low <= 2**i <= high}
    return sorted(values | {high})
