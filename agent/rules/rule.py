"""What a rule is: how one is declared, tried, and put after another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ...core import PythonKernel
from ..analysis.applicability import NotApplicable, require
from ..analysis.change import Change, Machine, Rewritten

K = TypeVar("K")


class Rule(Protocol):
    """A rewrite that applies where its preconditions hold."""

    @property
    def name(self) -> str:
        """By which runs and priors know it, such as 'split-k'."""

    @property
    def category(self) -> str:
        """The bottleneck it addresses: memory, compute, parallelism or algorithm."""

    @property
    def work(self) -> str:
        """The work it speeds up: 'products' (matrix products, convolutions), 'streams' (all else) or 'both'."""

    @property
    def why(self) -> str:
        """Why it should help, in one sentence."""

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
        """Return the rewritten kernel. Raises NotApplicable, with the reason, where a precondition does not hold."""


@dataclass(frozen=True)
class Rewrite(Generic[K]):
    """A rule that is made of a function; `rule` makes one."""

    name: str
    category: str
    work: str
    why: str
    read: Callable[[PythonKernel], K]
    """Reads the kernel for the function. Raises NotApplicable for another language or device."""
    change: Callable[[K, Change], Rewritten]

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
        """Return the rewritten kernel. Raises NotApplicable."""
        rewritten = self.change(self.read(kernel), Change(kernel, machine))
        require(rewritten.kernel.source != kernel.source, "nothing changes")
        return rewritten


def rule(
    name: str, *, category: str, work: str, why: str, reads: Callable[[PythonKernel], K]
) -> Callable[[Callable[[K, Change], Rewritten]], Rewrite[K]]:
    """Make a rule of a function, which gets what `reads` makes of a kernel, and the Change to write into."""
    return lambda change: Rewrite(name, category, work, why, reads, change)


@dataclass(frozen=True)
class _Combined:
    """A rule that goes together with others, under its own name."""

    rule: Rule

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def category(self) -> str:
        return self.rule.category

    @property
    def work(self) -> str:
        return self.rule.work

    @property
    def why(self) -> str:
        return self.rule.why


@dataclass(frozen=True)
class After(_Combined):
    """A rule that is tried by itself and, where it does not fit, after another one that may make it fit."""

    first: Rule

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
        """Return the kernel after the rule, or after both. Raises NotApplicable."""
        try:
            return self.rule.apply(kernel, machine)
        except NotApplicable as reason:
            try:
                made = self.first.apply(kernel, machine)
                return _joined(made, self.rule.apply(made.kernel, machine))
            except NotApplicable as later:
                raise NotApplicable(f"{reason}; after {self.first.name}: {later}") from None


@dataclass(frozen=True)
class Completed(_Combined):
    """A rule after which others are applied, those that fit what it makes."""

    by: tuple[Rule, ...]

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
        """Return the kernel after the rule and those that fit. Raises NotApplicable where the rule itself does not."""
        made = self.rule.apply(kernel, machine)
        for item in self.by:
            with suppress(NotApplicable):
                made = _joined(made, item.apply(made.kernel, machine))
        return made


def _joined(first: Rewritten, second: Rewritten) -> Rewritten:
    brought = {item.name: item for item in (*first.parameters, *second.parameters)}
    constraints = tuple(dict.fromkeys((*first.constraints, *second.constraints)))
    return Rewritten(second.kernel, f"{first.did}, and {second.did}", tuple(brought.values()), constraints)
