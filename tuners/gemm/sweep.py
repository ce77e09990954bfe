"""A search per shape: evaluators are kept for all of them, and each search begins with what its neighbours found."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ...core import (
    Config,
    Evaluation,
    Evaluator,
    Journal,
    KernelwrightError,
    OptionError,
    SearchSpace,
    Trial,
    set_aside,
)
from ...core.files import write_whole
from .. import catalogue
from ..search import SEARCHED, Progress, Search
from ..start import Warm
from .analytic import analytic_choice, space_for
from .outcome import first_message, largest_error, result_of, times_of
from .result import CHECKED, ShapeResult
from .shapes import Shape
from .task import Task

SAMPLE = 3
"""Shapes that are tuned first, to say what tuning gains."""
NEIGHBOURS = 2
"""Shapes with the same N and K whose times a search begins with."""


class Observer(Protocol):
    """Receives the events of a sweep."""

    def note(self, text: str) -> None:
        """A remark, one line."""

    def shape_started(self, shape: Shape) -> None:
        """A search begins."""

    def shape_trial(self, shape: Shape, progress: Progress) -> None:
        """A config was measured."""

    def shape_ended(self, result: ShapeResult, done: int, total: int, left_s: float) -> None:
        """A shape has its result; `left_s` estimates the seconds for the others."""


class Stopped(Exception):
    """The sweep was interrupted, and the searches in other threads must end."""


class Sweep:
    """Tunes shapes, one after the other on each evaluator; every result is on disk before the next begins.

    In `folder`: `sweep.json` with all results so far, and a folder per shape with its journal. With `resume`, results
    in it are taken as they are, and searches go on from their journals; else journals are set aside. A shape that
    cannot be tuned has a result with an error, and the others go on.
    """

    def __init__(
        self,
        task: Task,
        evaluators: Sequence[Evaluator],
        folder: Path,
        observer: Observer,
        resume: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.task, self.folder, self.observer = task, folder, observer
        self._evaluators, self._resume, self._clock = evaluators, resume, clock
        self._results: dict[Shape, ShapeResult] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._spent = 0.0
        self._fresh = 0

    @property
    def results(self) -> list[ShapeResult]:
        """The results so far, by N, K and M."""
        return [self._results[shape] for shape in sorted(self._results)]

    def run(self, shapes: Sequence[Shape]) -> list[ShapeResult]:
        """Tune all shapes; return their results. Raises `OptionError` where the folder has another sweep's results."""
        if self._resume:
            self._recall(shapes)
        left = deque(shape for shape in order(shapes) if shape not in self._results)
        sample = list(left)[:SAMPLE] if len(left) > 2 * SAMPLE and self.task.timed else []
        if sample:
            self._work(deque(sample), len(shapes))
            self._say_gain([self._results[shape] for shape in sample])
            left = deque(shape for shape in left if shape not in sample)
        self._work(left, len(shapes))
        return self.results

    def _work(self, left: deque[Shape], total: int) -> None:
        """Share the shapes among the evaluators."""
        failures: list[BaseException] = []

        def work(evaluator: Evaluator) -> None:
            try:
                while not self._stop.is_set():
                    with self._lock:
                        if not left:
                            return
                        shape = left.popleft()
                    self._add(self._tune(evaluator, shape), total)
            except Stopped:
                return
            except BaseException as error:
                failures.append(error)
                self._stop.set()

        if len(self._evaluators) == 1:
            work(self._evaluators[0])
        else:
            threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in self._evaluators]
            for thread in threads:
                thread.start()
            try:
                for thread in threads:
                    thread.join()
            except BaseException:
                self._stop.set()
                raise
        if failures:
            raise failures[0]

    def _add(self, result: ShapeResult, total: int) -> None:
        with self._lock:
            self._results[result.shape] = result
            self._spent += result.seconds
            self._fresh += 1
            done = len(self._results)
            self._write()
        left = self._spent / self._fresh * (total - done) / len(self._evaluators)
        self.observer.shape_ended(result, done, total, left)

    def _tune(self, evaluator: Evaluator, shape: Shape) -> ShapeResult:
        began = self._clock()
        self.observer.shape_started(shape)
        try:
            found = self._searched(evaluator, shape) if self.task.timed else self._checked(evaluator, shape)
        except KernelwrightError as error:
            found = ShapeResult(shape, error=" ".join(str(error).split()))
        return replace(found, seconds=round(self._clock() - began, 3))

    def _space(self, shape: Shape) -> tuple[SearchSpace, Config]:
        task, product = self.task, self.task.product(shape)
        space = space_for(task.kernel, shape, product, task.limits, task.fixed)
        return space, analytic_choice(space, task.limits, product)

    def _searched(self, evaluator: Evaluator, shape: Shape) -> ShapeResult:
        task, problem = self.task, self.task.problem(shape)
        space, analytic = self._space(shape)
        # Its own constants are the analytic choice, so that the finalists are timed beside it.
        kernel = task.kernel.bind(analytic)
        profile = evaluator.profile(problem).model_copy(update={"product": task.product(shape)})
        tuner = catalogue.create(task.tuner, space, task.seed, self._warm(shape), [analytic], profile)
        with self._journal(shape) as journal:
            observer = _Trials(self.observer, shape, self._stop)
            budget, patience = task.budget, task.patience
            search = Search(problem, kernel, space, tuner, evaluator, journal, budget, observer, patience, self._clock)
            found = search.run()
        result = result_of(shape, found, analytic)
        if task.reference_is_baseline:
            result = replace(result, baseline_ms=result.reference_ms)
        if task.baseline is not None and result.config is not None:
            other, own = task.baseline(shape)
            (beside,) = evaluator.compare(other, own, [Config()])
            result = replace(result, baseline_ms=beside.reference.median_ms if beside.reference else None)
        return result

    def _checked(self, evaluator: Evaluator, shape: Shape) -> ShapeResult:
        _, analytic = self._space(shape)
        with self._journal(shape) as journal:
            (found,) = evaluator.evaluate(self.task.problem(shape), self.task.kernel, [analytic])
            journal.append(Trial(origin=SEARCHED, evaluation=found, seconds=0.0))
        if not found.ok:
            return ShapeResult(
                shape, trials=1, error=f"{found.status}: {first_message(found)}", environment=found.environment
            )
        return ShapeResult(
            shape, analytic, CHECKED, max_error=largest_error(found), trials=1, environment=found.environment
        )

    def measure(self, configs: Sequence[Config]) -> list[ShapeResult]:
        """Measure these configs at every shape that lacks them, so that a set for all shapes can be chosen."""
        for result in [one for one in self.results if one.config is not None and self.task.timed]:
            space, analytic = self._space(result.shape)
            missing = [config for config in configs if config in space and config not in result.times]
            if not missing:
                continue
            problem, kernel = self.task.problem(result.shape), self.task.kernel.bind(analytic)
            with Journal(self._journal_path(result.shape)) as journal:
                for evaluation in self._evaluators[0].evaluate(problem, kernel, missing):
                    journal.append(Trial(origin=SEARCHED, evaluation=evaluation, seconds=0.0))
                    result = result.with_times(times_of([evaluation]))
            self._results[result.shape] = result
        return self.results

    def _warm(self, shape: Shape) -> Warm:
        """Return the neighbours' times, relative to their best."""
        with self._lock:
            same = [one for one in self._results.values() if (one.shape.n, one.shape.k) == (shape.n, shape.k)]
        same = [one for one in same if one.times]
        same.sort(key=lambda one: abs(math.log2(one.shape.m / shape.m)))
        return [(config, ms / min(one.times.values())) for one in same[:NEIGHBOURS] for config, ms in one.times.items()]

    def _journal_path(self, shape: Shape) -> Path:
        return self.folder / shape.slug / "journal.jsonl"

    def _journal(self, shape: Shape) -> Journal:
        path = self._journal_path(shape)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not self._resume:
            set_aside(path)
        return Journal(path)

    def _write(self) -> None:
        document = {"sweep": self.task.key, "shapes": [result.to_json() for result in self.results]}
        write_whole(self.folder / "sweep.json", json.dumps(document, indent=1) + "\n")

    def _recall(self, shapes: Sequence[Shape]) -> None:
        path = self.folder / "sweep.json"
        if not path.exists():
            return
        try:
            found = json.loads(path.read_text())
            results = [ShapeResult.of_json(one) for one in found["shapes"]]
            key = found["sweep"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OptionError(f"cannot read {path}: {error}", "leave out `resume`") from None
        if key != self.task.key:
            differing = ", ".join(name for name in key if key[name] != self.task.key.get(name))
            raise OptionError(f"{path} is of another sweep ({differing} differ)", "leave out `resume`")
        for result in results:
            # A shape that failed is tried again, and one that had fewer trials goes on.
            enough = result.trials >= (self.task.budget.trials or 0) or not self.task.timed
            if result.shape in shapes and not result.error and enough:
                with Journal(self._journal_path(result.shape)) as journal:
                    trials = [one.evaluation for one in journal.of(Trial) if one.origin == SEARCHED]
                self._results[result.shape] = replace(result, times=times_of(trials))

    def _say_gain(self, sample: Sequence[ShapeResult]) -> None:
        gains = [result.gain for result in sample if result.gain]
        if gains:
            mean = math.exp(sum(map(math.log, gains)) / len(gains))
            self.observer.note(
                f"on a sample of {len(gains)} shapes the best config is {mean:.2f} times as fast as the analytic "
                f"choice ({min(gains):.2f} to {max(gains):.2f}): about that is what tuning the others can gain"
            )


def order(shapes: Sequence[Shape]) -> list[Shape]:
    """Return the smallest, the middle and the largest product first, then all others by N, K and M."""
    by_work = sorted(shapes, key=lambda shape: (shape.flops, shape))
    sample = [by_work[0], by_work[len(by_work) // 2], by_work[-1]] if len(by_work) > 2 * SAMPLE else []
    return list(dict.fromkeys([*sample, *sorted(shapes)]))


class _Trials:
    """Passes a search's events on, and ends it when the sweep is interrupted."""

    def __init__(self, observer: Observer, shape: Shape, stop: threading.Event) -> None:
        self._observer, self._shape, self._stop = observer, shape, stop

    def trial(self, evaluation: Evaluation, progress: Progress) -> None:
        """Pass on."""
        if self._stop.is_set():
            raise Stopped
        self._observer.shape_trial(self._shape, progress)

    def finals(self, configs: Sequence[Config]) -> None:
        """Not shown."""
