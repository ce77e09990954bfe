"""Searches with an evaluator that answers from a table: no compiler, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from kernelwright.core import (
    Budget,
    Config,
    Evaluation,
    Journal,
    Kernel,
    Problem,
    Profile,
    SearchSpace,
    Trial,
    Tuner,
    read_journal,
)
from kernelwright.core.events import Event, FinalsStarted, TrialDone
from kernelwright.core.journal import of
from kernelwright.tuners.grid import Grid
from kernelwright.tuners.search import Found, Search

from ..fakes import PROBLEM, PROFILE, evaluation, kernel

SPACE = SearchSpace.of({"A": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]})
KERNEL = kernel(1.0, A=3)
ANOTHER = kernel(2.0, A=3)
WINDOW = 3

Answer = float | str


def times(config: Config) -> Answer:
    """The farther from 6 the slower; 9 fails."""
    return "timeout" if config["A"] == 9 else 1.0 + abs(int(config["A"]) - 6)


class Table:
    """Draws configs as far ahead as its window, and compares finalists by a table of their own."""

    def __init__(
        self,
        searched: Callable[[Config], Answer] = times,
        finals: Callable[[Config], Answer] | None = None,
        interrupt_after: int | None = None,
        window: int = WINDOW,
    ) -> None:
        self.searched = searched
        self.finals = finals or searched
        self.interrupt_after = interrupt_after
        self.window = window
        self.drawn: list[Config] = []
        self.measured: list[Config] = []
        self.compared: list[list[Config]] = []
        self.known: list[Evaluation] = []
        self.closed = False

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Iterator[Evaluation]:
        self.known = list(known)
        try:
            yield from self._evaluate(kernel, configs)
        finally:
            self.closed = True

    def _evaluate(self, kernel: Kernel, configs: Iterable[Config]) -> Iterator[Evaluation]:
        source, waiting = iter(configs), deque[Config]()
        while True:
            while len(waiting) < self.window and (config := next(source, None)) is not None:
                self.drawn.append(config)
                waiting.append(config)
            if not waiting:
                return
            if len(self.measured) == self.interrupt_after:
                raise KeyboardInterrupt
            config = waiting.popleft()
            self.measured.append(config)
            found = evaluation(kernel, config, self.searched(config))
            yield found.model_copy(update={"reference": None})

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        self.compared.append(list(configs))
        as_it_stands = Config({"A": 3})
        return [
            evaluation(kernel, config, self.finals(config or as_it_stands)).model_copy(update={"config": dict(config)})
            for config in configs
        ]

    def profile(self, problem: Problem) -> Profile:
        return PROFILE


class Watcher:
    """Remembers what it is shown."""

    def __init__(self) -> None:
        self.trials: list[tuple[int, int]] = []
        self.finalists: list[Config] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrialDone):
            self.trials.append((int(event.evaluation.config["A"]), event.number))
        if isinstance(event, FinalsStarted):
            self.finalists = list(event.configs)


class Clock:
    """Goes on by one second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def configs(*values: int) -> list[Config]:
    return [Config({"A": value}) for value in values]


def search(
    path: Path,
    table: Table,
    tuner: Tuner | None = None,
    budget: Budget | None = None,
    patience: int | None = None,
    watcher: Watcher | None = None,
    kernel: Kernel = KERNEL,
    clock: Callable[[], float] | None = None,
) -> Found:
    with Journal(path) as journal:
        chooses = tuner or Grid(SPACE)
        return Search(
            PROBLEM,
            kernel,
            SPACE,
            chooses,
            table,
            journal,
            budget or Budget(),
            watcher or Watcher(),
            patience,
            clock or Clock(),
        ).run()


def trials_in(path: Path, origin: str | None = None) -> list[Trial]:
    trials = of(read_journal(path), Trial)
    return [trial for trial in trials if origin in (None, trial.origin)]
