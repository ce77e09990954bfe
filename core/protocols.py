"""What the parts must do for each other; everything else is theirs to choose."""

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
    """Decides what a kernel is worth."""

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """One evaluation per config, in order, each as soon as it is known.

        `configs` is drawn from while evaluations are handed out, no further ahead than it takes to keep compilers
        busy: what it yields may depend on the evaluations so far. `known` are evaluations of this kernel from an
        earlier run: in a search, what has their code is not measured again. Closing the generator gives up what is
        under way. A kernel that fails is an evaluation with another status; only a problem that cannot be evaluated
        at all (its reference fails) raises, a `ProblemError`.
        """
        ...

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """One evaluation per config: all checked anew with new seeds, then timed in turn with each other.

        The way to choose among the best of a search, which noise favoured while they were measured one by one.
        """
        ...

    def profile(self, problem: Problem) -> Profile:
        """What the problem asks of this device: work, traffic, ceilings."""
        ...


class Tuner(Protocol):
    """Chooses configs. Never measures, never prints."""

    def ask(self, n: int = 1) -> list[Config]:
        """Up to n configs not asked for before; empty when there are none left."""
        ...

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """The verdict on a config that was asked for."""
        ...


class Retriever(Protocol):
    """Finds worked examples."""

    def search(self, query: Query, k: int) -> list[Hit]:
        """Up to k examples, the best first: no two nearly the same, none of the problem that is excluded.

        The same query has the same answer. Raises `OptionError` when k is no whole number from 1.
        """
        ...
