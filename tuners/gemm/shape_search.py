"""One shape of a sweep: a search for its best config, or a check of the analytic choice."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ...core import Config, Evaluator, Kernel, KernelwrightError, ProblemError, SearchSpace, TorchProblem, Trial
from ...core.events import CancelToken, Emit, Event, Note, TrialDone
from ...core.evidence import with_evidence
from ...core.text import first_line
from .. import catalogue
from ..search import SEARCHED, Search
from .analytic import analytic_choice, first_configs, space_for
from .ledger import Ledger
from .outcome import first_message, kernel_of, largest_error, result_of, times_of
from .result import CHECKED, PINNED, ShapeResult
from .shapes import Shape
from .task import Task


class ShapeSearch:
    """Tunes single shapes. Measurements go to the ledger's journals.

    `resume` goes on from these. `cancel` ends searches in other threads.
    """

    def __init__(
        self,
        task: Task,
        ledger: Ledger,
        emit: Emit,
        cancel: CancelToken,
        resume: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.task, self.emit = task, emit
        self._ledger, self._cancel, self._resume, self._clock = ledger, cancel, resume, clock

    def tune(self, evaluator: Evaluator, shape: Shape) -> ShapeResult:
        """Return the result of a shape; one that cannot be tuned has an error."""
        began = self._clock()
        try:
            found = self._searched(evaluator, shape) if self.task.timed else self._checked(evaluator, shape)
        except KernelwrightError as error:
            found = ShapeResult(shape, error=" ".join(str(error).split()))
        return replace(found, seconds=round(self._clock() - began, 3))

    def measure(self, evaluator: Evaluator, result: ShapeResult, configs: Sequence[Config]) -> ShapeResult:
        """Add the times of these configs to a result, except configs that are invalid at the shape."""
        space, analytic = self._space(result.shape)
        missing = [config for config in configs if config in space and config not in result.times]
        if not missing:
            return result
        problem, kernel = self.task.problem(result.shape), self.task.kernel.bind(analytic)
        with self._ledger.journal(result.shape) as journal, contextlib.suppress(KernelwrightError):
            for evaluation in evaluator.evaluate(problem, kernel, missing):
                journal.append(Trial(origin=SEARCHED, evaluation=evaluation, seconds=0.0))
                result = result.with_times(times_of([evaluation]))
        return result

    def _space(self, shape: Shape) -> tuple[SearchSpace, Config]:
        task, product = self.task, self.task.product(shape)
        space = space_for(task.kernel, shape, product, task.limits, task.fixed)
        return space, analytic_choice(space, task.limits, product)

    def _searched(self, evaluator: Evaluator, shape: Shape) -> ShapeResult:
        task, problem = self.task, self.task.problem(shape)
        space, analytic = self._space(shape)
        # Its own constants are the analytic choice, so that the finalists are timed with it.
        kernel = task.kernel.bind(analytic)
        profile = evaluator.profile(problem).model_copy(update={"product": task.product(shape)})
        first = first_configs(space, task.limits, task.product(shape))
        tuner = catalogue.create_tuner(task.tuner, space, task.seed, self._ledger.warm(shape), first, profile)
        with self._ledger.journal(shape, self._resume) as journal:
            search = Search(
                problem, kernel, space, tuner, evaluator, journal, task.budget, partial(self._tell, shape),
                task.patience, self._clock, cancel=self._cancel,
            )  # fmt: skip
            found = search.run()
        self._ledger.write_kernel(shape, kernel_of(problem, kernel, found, analytic))
        result = self._beside_the_default(evaluator, result_of(shape, found, analytic))
        return self._beside_the_library(evaluator, result)

    def _tell(self, shape: Shape, event: Event) -> None:
        """Pass a trial on, with the shape that it is of; several shapes are searched at once."""
        if isinstance(event, TrialDone):
            self.emit(replace(event, origin=str(shape)))

    def _beside_the_default(self, evaluator: Evaluator, result: ShapeResult) -> ShapeResult:
        """Return a result with the time of the engine's default, which is the choice unless another is faster."""
        task, default = self.task, self.task.default
        if default is None or result.config is None or result.config == default or result.time_ms is None:
            return result
        # The default may be no member of the space; it is judged like one.
        tuned, other = evaluator.compare(task.problem(result.shape), task.kernel, [result.config, default])
        if not other.ok or tuned.latency_ms is None or other.latency_ms is None:
            return result
        # The figures of a result are those of one run: the default's time is its ratio to the choice's, from this one.
        default_ms = result.time_ms * other.latency_ms / tuned.latency_ms
        gain = tuned.gain_over(other)
        if gain is not None and gain.low > 1.0:
            return replace(result, default_ms=default_ms)
        if other.speedup is not None:
            problem, kernel = task.problem(result.shape), task.kernel.bind(default)
            self._ledger.write_kernel(result.shape, with_evidence(kernel.source, problem, other, tuned))
        return replace(
            result,
            config=default,
            chosen=PINNED,
            time_ms=default_ms,
            default_ms=default_ms,
            max_error=largest_error(other),
        )

    def _beside_the_library(self, evaluator: Evaluator, result: ShapeResult) -> ShapeResult:
        """Return a result with the times of cuBLAS and of the library's product of such operands, where they are."""
        task = self.task
        if task.library is not None and result.config is not None:
            result = replace(result, library_ms=_reference_ms(evaluator, *task.library(result.shape), self.emit))
        if task.reference_is_baseline:
            return replace(result, baseline_ms=result.reference_ms)
        if task.baseline is None or result.config is None:
            return result
        return replace(result, baseline_ms=_reference_ms(evaluator, *task.baseline(result.shape), self.emit))

    def _checked(self, evaluator: Evaluator, shape: Shape) -> ShapeResult:
        _, analytic = self._space(shape)
        with self._ledger.journal(shape, self._resume) as journal:
            (found,) = evaluator.evaluate(self.task.problem(shape), self.task.kernel, [analytic])
            journal.append(Trial(origin=SEARCHED, evaluation=found, seconds=0.0))
        result = ShapeResult(shape, trials=1, environment=found.environment)
        if not found.ok:
            return replace(result, error=f"{found.status}: {first_message(found)}")
        return replace(result, config=analytic, chosen=CHECKED, max_error=largest_error(found))


def _reference_ms(evaluator: Evaluator, problem: TorchProblem, kernel: Kernel, emit: Emit) -> float | None:
    """Return the median of a problem's reference; None, with a note, if it cannot compute the shape."""
    try:
        (beside,) = evaluator.compare(problem, kernel, [Config()])
    except ProblemError as error:
        emit(Note(f"{problem.name} is not timed: {first_line(error)}"))
        return None
    return beside.reference.median_ms if beside.reference else None
