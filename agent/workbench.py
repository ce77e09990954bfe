"""Evaluates the kernels of a run: each once, counted, and taken from an earlier run's journal where possible."""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

from ..core import Budget, Config, Evaluation, Evaluator, Journal, Kernel, Problem, Profile, SearchSpace, ToolCall
from ..core.workload_rows import loses
from ..tuners import HillClimb, catalogue
from ..tuners.search import Found, Progress, Search
from .observer import Observer
from .recorded_evaluations import RecordedEvaluations
from .turn import Candidate, fastest

TUNING = "_tune_"
"""Separator between the name of a run's journal and that of one of its searches."""


class Workbench:
    """The evaluators of a run, shared by its lanes.

    Each of `evaluators` serves one lane at a time; `searcher` creates the evaluator for searches when first needed.
    """

    def __init__(
        self,
        problem: Problem,
        evaluators: Sequence[Evaluator],
        searcher: Callable[[], Evaluator],
        journal: Journal,
        observer: Observer,
        clock: Callable[[], float] = time.monotonic,
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
        self._searching = threading.Lock()
        self._search_evaluator: Evaluator | None = None
        self._searches: dict[str, Found] = {}
        self._journal = journal
        self._recall = RecordedEvaluations(journal)
        self._lock = threading.Lock()
        self._clock = clock
        # Finished or running measurements of this run, by the digest of the bound source.
        self._seen: dict[str, Future[Evaluation]] = {}

    def profile(self) -> Profile:
        """The problem's profile on the device; measured once per run."""
        if self._recall.profile is None:
            with self._evaluator() as evaluator:
                self._recall.profile = evaluator.profile(self.problem)
            self._recall.add_profile(self._recall.profile)
        return self._recall.profile

    def measured(self) -> set[str]:
        """Everything measured so far: the digests of bound sources, and the names of searches."""
        with self._lock:
            return {*self._seen, *self._searches}

    def evaluate(self, kernel: Kernel, config: Config, origin: str, again: bool = False) -> Evaluation:
        """Return a full evaluation, measured at most once per run unless `again`.

        A lane that requests a running measurement waits for it, without holding an evaluator.
        """
        bound = kernel.bind(config)
        with self._lock:
            pending = self._seen.get(bound.digest)
            if mine := pending is None or again:
                pending = self._seen[bound.digest] = Future()
        assert pending is not None
        if mine:
            try:
                pending.set_result(self._measure(kernel, config, bound, origin))
            except BaseException as error:
                with self._lock:
                    del self._seen[bound.digest]
                pending.set_exception(error)
        found = pending.result()
        # The text may have been measured as a kernel of another name, or at another config.
        return found.model_copy(update={"kernel_digest": kernel.digest, "config": dict(config)})

    def tune(
        self, kernel: Kernel, space: SearchSpace, tuner: str, trials: int, origin: str, seconds: float | None = None
    ) -> Found:
        """Search with one of the tuners, with compilation ahead and a final comparison.

        Its trials are in a separate journal beside the run's, from which a resumed run reads them. It occupies an
        evaluator's place while it lasts: on a CPU, where there is one, nothing else must run beside it.
        """
        profile = self.profile()
        name = search_name(kernel, space, tuner, trials)
        path = self._journal.path.with_name(f"{self._journal.path.stem}{TUNING}{name}.jsonl")
        with self._searching:
            if name in self._searches:
                return self._searches[name]
            if self._search_evaluator is None:
                self._search_evaluator = self._searcher()
            with self._evaluator(), Journal(path) as journal:
                search = Search(
                    self.problem,
                    kernel,
                    space,
                    catalogue.create(tuner, space, start=[space.default, *kernel.configs_in(space)], profile=profile),
                    self._search_evaluator,
                    journal,
                    Budget(trials=trials, seconds=seconds),
                    _Watched(self, origin),
                )
                self._searches[name] = search.run()
            return self._searches[name]

    def count(self, origin: str, evaluation: Evaluation) -> None:
        """Count one more trial."""
        with self._lock:
            self.trials += 1
        self.observer.trial(origin, evaluation)

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


def search_name(kernel: Kernel, space: SearchSpace, tuner: str, trials: int) -> str:
    """Return 16 hexadecimal digits. The number of trials is included: a resumed run must repeat each search."""
    return hashlib.sha256(f"{kernel.digest}{space!r}{tuner}{trials}".encode()).hexdigest()[:16]


class _Watched:
    """Forwards a search's trials to the run's observer."""

    def __init__(self, workbench: Workbench, origin: str) -> None:
        self._workbench = workbench
        self._origin = origin

    def trial(self, evaluation: Evaluation, progress: Progress) -> None:
        self._workbench.count(self._origin, evaluation)

    def finals(self, configs: Sequence[Config]) -> None:
        pass


class Lane:
    """One conversation with the workbench: its evaluations and tool calls.

    Its decisions must not depend on the progress of parallel lanes, or a resumed run would take another way. So what
    other lanes have measured meanwhile is not measured again, but counts as a trial of this lane too.
    """

    def __init__(
        self,
        workbench: Workbench,
        number: int,
        index: int,
        late: Callable[[], str | None],
        left: Callable[[], float | None] = lambda: None,
    ) -> None:
        """The set before any lane of the same turn starts."""
        self.workbench = workbench
        self.number = number
        self.index = index
        self.late = late
        """Returns the limit of the run that is reached, or None."""
        self._left = left
        self.trials = 0
        """Evaluations that were unknown when the lane started."""
        self.tried: list[Candidate] = []
        """Correct and timed candidates."""
        self.tool_calls: list[ToolCall] = []
        self.last: tuple[Kernel, Evaluation] | None = None
        """The latest evaluation, for a tool that explains its failure."""
        self._known = workbench.measured()

    @property
    def name(self) -> str:
        """'3.0': the third turn, its first expansion."""
        return f"{self.number}.{self.index}"

    def evaluate(self, kernel: Kernel, config: Config, strategy: str) -> Evaluation:
        """Return a full evaluation of one config."""
        evaluation = self._evaluate(kernel, config, strategy)
        self.last = kernel.bind(config), evaluation
        self._note(kernel, [evaluation])
        return evaluation

    def climb(
        self, kernel: Kernel, space: SearchSpace, start: Sequence[Config], trials: int, strategy: str
    ) -> list[Evaluation]:
        """Do a short hill climb, each config evaluated in full; known results take no trial."""
        tuner = HillClimb(space, start=start)
        evaluations: list[Evaluation] = []
        while len(evaluations) < trials and not self.late() and (configs := tuner.ask(1)):
            before = self.trials
            evaluation = self._evaluate(kernel, configs[0], strategy)
            if self.trials > before:
                evaluations.append(evaluation)
            tuner.tell(configs[0], evaluation)
        self._note(kernel, evaluations)
        return evaluations

    def tune(self, kernel: Kernel, space: SearchSpace, tuner: str, trials: int) -> Found:
        """See `Workbench.tune`."""
        origin = self._origin(f"tune with {tuner}")
        found = self.workbench.tune(kernel, space, tuner, trials, origin, self._left())
        name = search_name(kernel, space, tuner, trials)
        self.trials += 0 if name in self._known else found.progress.trials
        self._known.add(name)
        self._note(kernel, found.finals)
        return found

    def _evaluate(self, kernel: Kernel, config: Config, strategy: str) -> Evaluation:
        evaluation = self.workbench.evaluate(kernel, config, self._origin(strategy))
        bound = kernel.bind(config).digest
        self.trials += bound not in self._known
        self._known.add(bound)
        return evaluation

    def _origin(self, strategy: str) -> str:
        """Return the journal's name for this lane's evaluations."""
        lane = f".{self.index}" if self.index else ""
        return f"turn {self.number}{lane}: {strategy}"

    def _note(self, kernel: Kernel, evaluations: Sequence[Evaluation]) -> None:
        best = fastest(kernel, tuple(one for one in evaluations if loses(one, self.workbench.start) is None))
        if best is not None:
            self.tried.append(best)
