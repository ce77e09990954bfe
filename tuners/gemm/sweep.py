"""A search per shape. Evaluators are kept for all searches, and each search starts with its neighbours' results."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ...core import Config, Evaluator
from ...core.events import CancelToken, Emit, Note, PartDone
from .ledger import Ledger
from .result import ShapeResult
from .shape_search import ShapeSearch
from .shapes import Shape
from .sharing import share
from .task import Task

SAMPLE = 3
"""Number of shapes that are tuned first, to estimate the gain of tuning."""


class Sweep:
    """Tunes shapes, one after the other on each evaluator; every result is on disk before the next begins.

    In `folder`: `sweep.json` with all results so far, and a folder per shape with its journal and kernel. With
    `resume`, results in it are taken as they are, and searches go on from their journals; else journals are set
    aside. A shape that cannot be tuned has a result with an error, and the others go on.
    """

    def __init__(
        self,
        task: Task,
        evaluators: Sequence[Evaluator],
        folder: Path,
        emit: Emit,
        resume: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.task, self.emit = task, emit
        self._evaluators, self._resume = evaluators, resume
        self._ledger, self._cancel = Ledger(folder, task.key), CancelToken()
        self._search = ShapeSearch(task, self._ledger, emit, self._cancel, resume, clock)
        self._lock = threading.Lock()
        self._spent: list[float] = []

    @property
    def results(self) -> list[ShapeResult]:
        """The results so far, by N, K and M."""
        return self._ledger.results

    def run(self, shapes: Sequence[Shape]) -> list[ShapeResult]:
        """Tune all shapes and return their results. Raises `OptionError` if the folder has another sweep's results."""
        if self._resume:
            # A shape that is only checked has one trial.
            self._ledger.recall(shapes, (self.task.budget.trials or 0) if self.task.timed else 0)
        left = [shape for shape in order(shapes) if shape not in self._ledger]
        sample = left[:SAMPLE] if len(left) > 2 * SAMPLE and self.task.timed else []
        if sample:
            self._tune(sample, len(shapes))
            self._say_gain([self._ledger[shape] for shape in sample])
        self._tune(left[len(sample) :], len(shapes))
        return self.results

    def measure(self, configs: Sequence[Config]) -> list[ShapeResult]:
        """Measure these configs at every shape that lacks them, so that a set for all shapes can be chosen."""
        tuned = [item for item in self.results if item.config is not None and self.task.timed]

        def measure(evaluator: Evaluator, result: ShapeResult) -> None:
            self._ledger.add(self._search.measure(evaluator, result, configs))

        share(tuned, self._evaluators, measure, self._cancel)
        return self.results

    def _tune(self, shapes: Sequence[Shape], total: int) -> None:
        def tune(evaluator: Evaluator, shape: Shape) -> None:
            result = self._search.tune(evaluator, shape)
            done = self._ledger.add(result)
            with self._lock:
                self._spent.append(result.seconds)
                mean = sum(self._spent) / len(self._spent)
            left = mean * (total - done) / len(self._evaluators)
            self.emit(PartDone(result, done, total, left))

        share(shapes, self._evaluators, tune, self._cancel)

    def _say_gain(self, sample: Sequence[ShapeResult]) -> None:
        gains = [result.gain for result in sample if result.gain]
        if gains:
            mean = math.exp(sum(map(math.log, gains)) / len(gains))
            said = (
                f"on a sample of {len(gains)} shapes the best config is {mean:.2f} times as fast as the analytic "
                f"choice ({min(gains):.2f} to {max(gains):.2f}): about that is what tuning the others can gain"
            )
            self.emit(Note(said))


def order(shapes: Sequence[Shape]) -> list[Shape]:
    """Return the smallest, the middle and the largest product first, then all others by N, K and M."""
    by_work = sorted(shapes, key=lambda shape: (shape.flops, shape))
    sample = [by_work[0], by_work[len(by_work) // 2], by_work[-1]] if len(by_work) > 2 * SAMPLE else []
    return list(dict.fromkeys([*sample, *sorted(shapes)]))
