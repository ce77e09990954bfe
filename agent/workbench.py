"""Evaluates the kernels of a run: each once, counted, and taken from an earlier run's journal where possible."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ..core import Config, Evaluation, Evaluator, Journal, Kernel, Problem, Profile, Screener
from .observer import LoopObserver
from .parallel import Once
from .recorded_evaluations import RecordedEvaluations
from .searches import Searches


class Workbench:
    """The evaluators of a run, shared by its lanes.

    Each of `evaluators` serves one lane at a time. `searcher` and `finalist` return what stands in for one of them in
    a search, and in a kernel's last check. A search compiles with `compilers` processes.
    """

    def __init__(
        self,
        problem: Problem,
        evaluators: Sequence[Evaluator],
        searcher: Callable[[Evaluator], Screener],
        journal: Journal,
        observer: LoopObserver,
        clock: Callable[[], float] = time.monotonic,
        finalist: Callable[[Evaluator], Evaluator] = lambda evaluator: evaluator,
        compilers: int = 1,
    ) -> None:
        self.problem = problem
        self.observer = observer
        self.trials = 0
        self.start: Evaluation | None = None
        """Of the run: no workload may lose against it."""
        self._free: queue.Queue[Evaluator] = queue.Queue()
        for evaluator in evaluators:
            self._free.put(evaluator)
        self._searcher = searcher
        self._finalist = finalist
        self.compilers = compilers
        self.searches = Searches(problem, journal.path, self._searching, self.profile, self.count)
        self._recall = RecordedEvaluations(journal)
        self._lock = threading.Lock()
        self._clock = clock
        self._seen = Once[Evaluation]()
        """Measurements of this run, by the digest of the bound source."""

    def profile(self) -> Profile:
        """The problem's profile on the device; measured once per run."""
        if self._recall.profile is None:
            with self._evaluator() as evaluator:
                self._recall.profile = evaluator.profile(self.problem)
            self._recall.add_profile(self._recall.profile)
        return self._recall.profile

    def measured(self) -> set[str]:
        """Everything measured so far: the digests of bound sources, and the names of searches."""
        return self._seen.names() | self.searches.names()

    def evaluate(self, kernel: Kernel, config: Config, origin: str, again: bool = False) -> Evaluation:
        """Return a full evaluation, measured at most once per run unless `again`, which is a last check.

        A lane that requests a running measurement waits for it, without holding an evaluator.
        """
        bound = kernel.bind(config)
        measure = partial(self._measure, kernel, config, bound, origin, again)
        found = self._seen.get(bound.digest, measure, again)
        # The text may have been measured as a kernel of another name, or at another config.
        return found.model_copy(update={"kernel_digest": kernel.digest, "config": dict(config)})

    def count(self, origin: str, evaluation: Evaluation) -> None:
        """Count one more trial."""
        with self._lock:
            self.trials += 1
        self.observer.trial(origin, evaluation)

    def _measure(self, kernel: Kernel, config: Config, bound: Kernel, origin: str, last: bool) -> Evaluation:
        evaluation = self._recall.take(bound)
        if evaluation is None:
            with self._evaluator() as evaluator:
                start = self._clock()
                judge = self._finalist(evaluator) if last else evaluator
                (evaluation,) = judge.evaluate(self.problem, kernel, [config])
                seconds = self._clock() - start
            self._recall.add(kernel, evaluation, origin, seconds)
        self.count(origin, evaluation)
        return evaluation

    @contextlib.contextmanager
    def _evaluator(self) -> Iterator[Evaluator]:
        """Yield a free evaluator, waiting for one if necessary."""
        evaluator = self._free.get()
        try:
            yield evaluator
        finally:
            self._free.put(evaluator)

    @contextlib.contextmanager
    def _searching(self) -> Iterator[Screener]:
        """Yield an evaluator for searches in the place of a free one."""
        with self._evaluator() as evaluator:
            yield self._searcher(evaluator)
