"""The interfaces between the parts."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Protocol

from .evaluation import Evaluation
from .kernel import Kernel
from .problem import Problem
from .profile import Profile
from .retrieval import Hit, Query
from .space import Config


class Evaluator(Protocol):
    """Evaluates kernels: correctness and speed."""

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """Yield one evaluation per config, in order, each as soon as it is known.

        `configs` is consumed while evaluations are yielded, no further ahead than needed to keep compilers busy: it may
        depend on the evaluations so far. `known` are evaluations of this kernel from an earlier run: a search does not
        measure their code again. Closing the generator cancels running work. A kernel that fails is an evaluation with
        another status; only a problem that cannot be evaluated at all (its reference fails) raises `ProblemError`.
        """
        ...

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """Return one evaluation per config: all checked again with new seeds, then timed interleaved with each other.

        Use it to choose among the best of a search, whose individual measurements noise has favoured.
        """
        ...

    def profile(self, problem: Problem) -> Profile:
        """Return the problem's work, traffic and ceilings on this device."""
        ...


class Screener(Evaluator, Protocol):
    """An evaluator for searches: quick, since what it finds is evaluated again."""

    def screen(self, problem: Problem, kernels: Sequence[Kernel]) -> Generator[Evaluation]:
        """Yield one evaluation per kernel, in order, with its parameters as they are.

        All are compiled side by side before they are measured one by one. Their times compare with each other, not with
        those of `evaluate`. The first kernel is one that works: others are not timed further when they are far slower.
        """
        ...


class Judge(Evaluator, Protocol):
    """An evaluator for last checks."""

    def contest(self, problem: Problem, kernels: Sequence[Kernel]) -> list[Evaluation]:
        """Return one evaluation per kernel, with its parameters as they are.

        Each is checked with new seeds in a process of its own; then those that passed are timed interleaved with each
        other and with the reference, whose measurement they share. Only ratios between such times are measured.
        """
        ...


class Tuner(Protocol):
    """Chooses configs. Never measures, never prints."""

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n configs not asked for before; empty when there are none left."""
        ...

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Learn the result of a config."""
        ...


class Retriever(Protocol):
    """Finds worked examples."""

    def search(self, query: Query, k: int) -> list[Hit]:
        """Return up to k examples, the best first: no two nearly the same, none of the problem that is excluded.

        The same query gives the same result. Raises `OptionError` unless k is a whole number from 1.
        """
        ...
