"""Several devices as one evaluator: each measures its share of the configs."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from types import TracebackType

from ..core import Config, Evaluation, Kernel, Problem, Profile
from .local import LocalEvaluator

AHEAD = 2
"""Windows of work per device: one to measure, one so that it need not wait for the others."""


class MultiDeviceEvaluator:
    """Distributes configs over `evaluators` and yields their evaluations in the order of the configs.

    The devices must be of one model. Finalists are compared on the first one, under the same clocks.
    """

    def __init__(self, evaluators: Sequence[LocalEvaluator]) -> None:
        self._evaluators = tuple(evaluators)

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """See `core.Evaluator`; draws from `configs` in the calling thread."""
        source = iter(configs)
        members: list[_Member] = []
        order: deque[_Member] = deque()
        ended = False
        try:
            for evaluator in self._evaluators:
                members.append(_Member(evaluator, problem, kernel, known))
            while True:
                while not ended and (member := min(members, key=lambda each: each.busy)).busy < member.room:
                    config = next(source, None)
                    if config is None:
                        ended = True
                        for started in members:
                            started.give(None)
                    else:
                        member.give(config)
                        order.append(member)
                if not order:
                    return
                yield order.popleft().take()
        finally:
            for started in members:
                started.stop()
            for started in members:
                started.join()

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """See `core.Evaluator`."""
        return self._evaluators[0].compare(problem, kernel, configs)

    def profile(self, problem: Problem) -> Profile:
        """See `core.Evaluator`."""
        return self._evaluators[0].profile(problem)

    def __enter__(self) -> MultiDeviceEvaluator:
        return self

    def __exit__(
        self, raised: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all processes."""
        for evaluator in self._evaluators:
            evaluator.__exit__(raised, error, trace)


class _Member:
    """One device, driven by a thread."""

    def __init__(
        self, evaluator: LocalEvaluator, problem: Problem, kernel: Kernel, known: Sequence[Evaluation]
    ) -> None:
        search = evaluator.settings.search
        self.room = AHEAD * (search.window if search else 1)
        self.busy = 0
        self._stopped = False
        self._asked: queue.SimpleQueue[Config | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Evaluation | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, args=(evaluator, problem, kernel, known), daemon=True)
        self._thread.start()

    def give(self, config: Config | None) -> None:
        """Request an evaluation; None ends the requests."""
        self.busy += config is not None
        self._asked.put(config)

    def take(self) -> Evaluation:
        """Return the next evaluation, in the order of the requests; raises the evaluator's exception."""
        result = self._results.get()
        self.busy -= 1
        if isinstance(result, BaseException):
            raise result
        return result

    def stop(self) -> None:
        """Cancel requests that have not started; a running one finishes."""
        self._stopped = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._asked.get_nowait()
        self._asked.put(None)

    def join(self) -> None:
        self._thread.join()

    def _serve(self, evaluator: LocalEvaluator, problem: Problem, kernel: Kernel, known: Sequence[Evaluation]) -> None:
        try:
            for evaluation in evaluator.evaluate(problem, kernel, iter(self._asked.get, None), known):
                self._results.put(evaluation)
                if self._stopped:
                    return
        except BaseException as error:  # raised again by `take`
            self._results.put(error)
