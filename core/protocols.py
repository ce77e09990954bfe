"""Protocols between the layers."""

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

        `configs` is consumed lazily, no further ahead than needed to keep compilers busy, so it may depend on the
        evaluations so far. `known` are evaluations of this kernel from an earlier run; a search does not measure their
        code again. Closing the generator cancels running work. A failed kernel is an evaluation with another status.
        `ProblemError` is raised only if the problem cannot be evaluated at all, because its reference fails.
        """
        ...

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """Return one evaluation per config: all checked again with new seeds, then timed interleaved with each other.

        Use it to choose among the best configs of a search, whose single measurements are biased by noise.
        """
        ...

    def profile(self, problem: Problem) -> Profile:
        """Return the problem's work and traffic, and the peak rates of this device."""
        ...


class Screener(Evaluator, Protocol):
    """A quick evaluator for searches. Its best results are evaluated again."""

    def screen(self, problem: Problem, kernels: Sequence[Kernel]) -> Generator[Evaluation]:
        """Yield one evaluation per kernel, in order, at its current parameters.

        Kernels are compiled in parallel and then measured one by one. Their times compare with each other only, not
        with those of `evaluate`. The first kernel must work: timing stops early for kernels that are far slower.
        """
        ...


class Judge(Evaluator, Protocol):
    """An evaluator for final checks."""

    def contest(self, problem: Problem, kernels: Sequence[Kernel]) -> list[Evaluation]:
        """Return one evaluation per kernel at its current parameters.

        Each kernel is checked with new seeds in its own process. Kernels that passed are timed interleaved with each
        other and with the reference, whose measurement they share. Only ratios of these times are meaningful.
        """
        ...


class Tuner(Protocol):
    """Chooses configs. It never measures and never prints."""

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n configs that it has not returned before; empty if none are left."""
        ...

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Record the result of a config."""
        ...


class Retriever(Protocol):
    """Finds worked examples."""

    def search(self, query: Query, k: int) -> list[Hit]:
        """Return up to k examples, the best first, without near duplicates and without the excluded problem.

        The result is deterministic. Raises `OptionError` unless k is a positive integer.
        """
        ...
