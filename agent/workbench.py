"""Evaluates the kernels of a run. Each is evaluated once, counted, and taken from an earlier journal if possible."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..core import Config, DeviceError, Evaluation, Evaluator, Journal, Judge, Kernel, Problem, Profile, Screener
from ..core.events import Emit, TrialDone
from ..tuners.search import MOST_LOST
from .parallel import SingleFlight
from .recorded_evaluations import RecordedEvaluations
from .searches import Searches

FINAL, START_BESIDE = "final", "final: start"
"""Origins of the trials of a final check: the kernel, and the start that was timed with it."""


@dataclass(frozen=True)
class LastCheck:
    """A kernel and the run's start, checked anew and timed interleaved with each other."""

    found: Evaluation
    """Evaluation of the kernel."""
    start: Evaluation

    @property
    def measured(self) -> bool:
        """Whether both are verdicts, and not what the machine prevented."""
        return self.found.measured and self.start.measured

    @property
    def contention(self) -> float | None:
        """Contention of both, which share a timing; the larger one if they could not be timed together."""
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
        """Evaluation of the run's start, against which no workload may become slower."""
        self._free: queue.Queue[Evaluator] = queue.Queue()
        for evaluator in evaluators:
            self._free.put(evaluator)
        self._searcher = searcher
        self._judge = judge
        self.compilers = compilers
        self.searches = Searches(problem, journal.path, self._searching, self.profile, self.count, clock)
        self._recall = RecordedEvaluations(journal)
        self._lock = threading.Lock()
        self._lost = 0
        self._clock = clock
        self._seen = SingleFlight[Evaluation]()
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
        if not found.measured:
            self._seen.forget(bound.digest)
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
        if measured.measured:
            self._seen.get(kernel.digest, lambda: measured, again=True)
        return LastCheck(measured, measured if alone else beside)

    def _recalled_beside(self, found: Evaluation, start: Kernel) -> Evaluation | None:
        """Return the start's evaluation in the earlier run's final check, or None."""
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
        self._require_machine(evaluation)
        return evaluation

    def _require_machine(self, evaluation: Evaluation) -> None:
        """Raise `DeviceError` where the machine lets nothing be measured: every further kernel would end so."""
        with self._lock:
            self._lost = 0 if evaluation.measured else self._lost + 1
            lost = self._lost
        if lost >= MOST_LOST:
            raise DeviceError(f"{lost} kernels in a row could not be measured: {evaluation.message}")

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
