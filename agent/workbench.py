"""Evaluates the kernels of a run: each once, counted, and taken from an earlier run's journal where possible."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..core import Config, Evaluation, Evaluator, Journal, Judge, Kernel, Problem, Profile, Screener
from ..core.events import Emit, TrialDone
from .parallel import Once
from .recorded_evaluations import RecordedEvaluations
from .searches import Searches

FINAL, START_BESIDE = "final", "final: start"
"""The origins of a last check's trials: the kernel, and the start that was timed beside it."""


@dataclass(frozen=True)
class LastCheck:
    """A kernel and the run's start, checked anew and timed interleaved with each other."""

    found: Evaluation
    """Of the kernel."""
    start: Evaluation

    @property
    def contention(self) -> float | None:
        """Of both, which one timing has; the larger where they could not be timed together."""
        return max((item.contention for item in (self.found, self.start) if item.contention is not None), default=None)


class Workbench:
    """The evaluators of a run, shared by its lanes.

    Each of `evaluators` serves one lane at a time. `searcher` and `judge` return what stands in for one of them in a
    search, and in a kernel's last check. A search compiles with `compilers` processes.
    """

    def __init__(
        self,
        problem: Problem,
        evaluators: Sequence[Evaluator],
        searcher: Callable[[Evaluator], Screener],
        journal: Journal,
        emit: Emit,
        clock: Callable[[], float] = time.monotonic,
        judge: Callable[[Evaluator], Judge] | None = None,
        compilers: int = 1,
    ) -> None:
        self.problem = problem
        self.emit = emit
        self.trials = 0
        self.start: Evaluation | None = None
        """Of the run: no workload may lose against it."""
        self._free: queue.Queue[Evaluator] = queue.Queue()
        for evaluator in evaluators:
            self._free.put(evaluator)
        self._searcher = searcher
        self._judge = judge
        self.compilers = compilers
        self.searches = Searches(problem, journal.path, self._searching, self.profile, self.count, clock)
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
        """Return a full evaluation, measured at most once per run unless `again`.

        A lane that requests a running measurement waits for it, without holding an evaluator.
        """
        bound = kernel.bind(config)
        measure = partial(self._measure, kernel, config, bound, origin)
        found = self._seen.get(bound.digest, measure, again)
        # The text may have been measured as a kernel of another name, or at another config.
        return found.model_copy(update={"kernel_digest": kernel.digest, "config": dict(config)})

    def check_last(self, kernel: Kernel, start: Kernel) -> LastCheck:
        """Check a kernel and the start anew and time them together, whatever was measured of them before.

        From an earlier run's journal both are taken, or none: times of two runs make no ratio.
        """
        alone = kernel.digest == start.digest
        found = self._recall.take(kernel)
        beside = found if alone or found is None else self._recalled_beside(found, start)
        if found is None or beside is None:
            beside, *others = self._contest([start] if alone else [start, kernel])
            found = others[0] if others else beside
        # The text may have been measured as a kernel of another name.
        measured = found.model_copy(update={"kernel_digest": kernel.digest, "config": {}})
        self.count(FINAL, measured)
        self._seen.get(kernel.digest, lambda: measured, again=True)
        return LastCheck(measured, measured if alone else beside)

    def _recalled_beside(self, found: Evaluation, start: Kernel) -> Evaluation | None:
        """Return the start's evaluation by the earlier run that was timed beside another one, or None."""
        while (known := self._recall.take(start)) is not None:
            if known.reference == found.reference or found.reference is None:
                return known
        return None

    def _contest(self, kernels: Sequence[Kernel]) -> list[Evaluation]:
        with self._evaluator() as evaluator:
            began = self._clock()
            assert self._judge is not None, "only a run that ends has last checks"
            found = self._judge(evaluator).contest(self.problem, kernels)
            # Timed interleaved: they have no individual times.
            each = (self._clock() - began) / len(kernels)
        for kernel, evaluation in zip(kernels, found, strict=True):
            self._recall.add(kernel, evaluation, FINAL if kernel is kernels[-1] else START_BESIDE, each)
        return found

    def count(self, origin: str, evaluation: Evaluation) -> None:
        """Count one more trial."""
        with self._lock:
            self.trials += 1
        self.emit(TrialDone(origin, evaluation))

    def _measure(self, kernel: Kernel, config: Config, bound: Kernel, origin: str) -> Evaluation:
        evaluation = self._recall.take(bound)
        if evaluation is None:
            with self._evaluator() as evaluator:
                start = self._clock()
                (evaluation,) = evaluator.evaluate(self.problem, kernel, [config])
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
