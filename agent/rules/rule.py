"""How rules are declared, tried and combined. Rules import all that from here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

from ...core import PythonKernel
from ..analysis.applicability import NotApplicableError, OtherLanguageError, fitting, need, need_a, require
from ..analysis.change import Change, Machine, Rewritten

K = TypeVar("K")


@runtime_checkable
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
        """Return the rewritten kernel.

        Raises NotApplicableError, with the reason, where a precondition does not hold.
        """


@dataclass(frozen=True)
class Rewrite(Generic[K]):
    """A rule that is made of a function; `rule` makes one."""

    name: str
    category: str
    work: str
    why: str
    read: Callable[[PythonKernel], K]
    """Reads the kernel for the function. Raises NotApplicableError for another language or device."""
    change: Callable[[K, Change], Rewritten]

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
        """Return the rewritten kernel. Raises NotApplicableError."""
        rewritten = self.change(self.read(kernel), Change(kernel, machine))
        require(rewritten.kernel.source != kernel.source, "nothing changes")
        return rewritten


@dataclass(frozen=True)
class rule(Generic[K]):  # noqa: N801 (it is used as a decorator)
    """Makes a rule of a function: `@rule(category, work, reads).because(why)`.

    The function gets what `reads` makes of a kernel, and the Change to write into. The rule's name is the function's
    with hyphens: `split-k` of `split_k`.
    """

    category: str
    work: str
    reads: Callable[[PythonKernel], K]
    name: str = ""

    def because(self, why: str) -> Callable[[Callable[[K, Change], Rewritten]], Rewrite[K]]:
        """Return the decorator."""

        def make(change: Callable[[K, Change], Rewritten]) -> Rewrite[K]:
            name = self.name or change.__name__.replace("_", "-")
            return Rewrite(name, self.category, self.work, why, self.reads, change)

        return make


@dataclass(frozen=True)
class _Combined:
    """A rule that goes together with others, under its own name."""

    rule: Rule
    name: str = field(init=False)
    category: str = field(init=False)
    work: str = field(init=False)
    why: str = field(init=False)

    def __post_init__(self) -> None:
        for item in ("name", "category", "work", "why"):
            object.__setattr__(self, item, getattr(self.rule, item))


@dataclass(frozen=True)
class After(_Combined):
    """A rule that is tried by itself and, where it does not fit, after another one that may make it fit."""

    first: Rule

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
        """Return the kernel after the rule, or after both. Raises NotApplicableError."""
        try:
            return self.rule.apply(kernel, machine)
        except OtherLanguageError:
            raise
        except NotApplicableError as reason:
            try:
                made = self.first.apply(kernel, machine)
                return _joined(made, self.rule.apply(made.kernel, machine))
            except NotApplicableError as later:
                raise NotApplicableError(f"{reason}; after {self.first.name}: {later}") from None


@dataclass(frozen=True)
class Completed(_Combined):
    """A rule after which others are applied, those that fit what it makes."""

    by: tuple[Rule, ...]

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
        """Return the kernel after the rule and those that fit.

        Raises NotApplicableError where the rule itself does not.
        """
        made = self.rule.apply(kernel, machine)
        for item in self.by:
            with suppress(NotApplicableError):
                made = _joined(made, item.apply(made.kernel, machine))
        return made


def _joined(first: Rewritten, second: Rewritten) -> Rewritten:
    brought = {item.name: item for item in (*first.parameters, *second.parameters)}
    constraints = tuple(dict.fromkeys((*first.constraints, *second.constraints)))
    return Rewritten(second.kernel, f"{first.summary}, and {second.summary}", tuple(brought.values()), constraints)
