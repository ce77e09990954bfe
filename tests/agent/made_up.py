"""Evaluators, proposers and runs that are made up: the loop's decisions without a compiler and without a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kernelwright.agent.bottleneck import Analysis
from kernelwright.agent.lane import Lane
from kernelwright.agent.loop import Optimization, Outcome
from kernelwright.agent.proposer import TurnContext
from kernelwright.agent.stopping import StoppingCriteria
from kernelwright.agent.turn import Attempt
from kernelwright.agent.workbench import Workbench
from kernelwright.core import (
    Budget,
    Config,
    Evaluation,
    Journal,
    Kernel,
    Measurement,
    Problem,
    Profile,
    Proposal,
    SearchSpace,
    Trial,
)
from kernelwright.core.events import Emit, Event, ignore
from kernelwright.runtime.jobs import keep

from ..fakes import PROBLEM, PROFILE, evaluation, kernel

EventT = TypeVar("EventT", bound=Event)
Change = Callable[[Kernel, int], float | str | None]
Step = Kernel | Proposal | Exception | Callable[[TurnContext], Kernel | None] | None


class Scripted:
    """Evaluates what the source says: RESULT, or SPEED where it has that; `change` may say otherwise.

    `after` counts down to an interruption.
    """

    def __init__(self, after: int | None = None, change: Change | None = None, contention: float | None = None) -> None:
        self.calls: list[str] = []
        self.profiles = 0
        self._after = after
        self._change = change
        self._contention = contention
        self._lock = threading.Lock()

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Iterator[Evaluation]:
        for config in configs:
            bound = kernel.bind(config)
            with self._lock:
                if self._after is not None and len(self.calls) >= self._after:
                    raise KeyboardInterrupt
                self.calls.append(bound.source)
                number = len(self.calls)
            yield evaluation(kernel, config, self._result(bound, number), self._contention)

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        return list(self.evaluate(problem, kernel, configs))

    def contest(self, problem: Problem, kernels: Sequence[Kernel]) -> list[Evaluation]:
        return [found for kernel in kernels for found in self.evaluate(problem, kernel, [Config()])]

    def screen(self, problem: Problem, kernels: Sequence[Kernel]) -> Iterator[Evaluation]:
        for variant in kernels:
            yield from self.evaluate(problem, variant, [Config()])

    def profile(self, problem: Problem) -> Profile:
        self.profiles += 1
        return PROFILE

    def _result(self, bound: Kernel, number: int) -> float | str:
        result: float | str = (self._change and self._change(bound, number)) or bound.constants["RESULT"]
        return bound.constants.get("SPEED", result) if isinstance(result, float) else result


class Beside(Scripted):
    """Times other baselines too, in ms by name."""

    def __init__(self, baselines_ms: Mapping[str, float]) -> None:
        super().__init__()
        self._baselines = {name: Measurement(samples_ms=(ms,) * 3) for name, ms in baselines_ms.items()}

    def evaluate(self, *arguments: Any, **more: Any) -> Iterator[Evaluation]:
        for made in super().evaluate(*arguments, **more):
            yield made.model_copy(update={"baselines": self._baselines})


class Planned:
    """Proposes by a plan: for each lane ('2.0': the second turn, its first expansion) one step per attempt."""

    def __init__(self, plan: Mapping[str, Sequence[Step]]) -> None:
        self.plan = plan
        self.contexts: dict[str, TurnContext] = {}
        self.failed: dict[str, list[str]] = {}

    def analyse(self, context: TurnContext) -> Analysis:
        self.contexts[context.lane.name] = context
        return context.analysis

    def propose(self, context: TurnContext, failed: Sequence[Attempt] = ()) -> Proposal | None:
        lane = context.lane.name
        self.failed[lane] = [attempt.error for attempt in failed]
        steps = self.plan.get(lane, ())
        step = steps[len(failed)] if len(failed) < len(steps) else None
        if isinstance(step, Exception):
            raise step
        chosen = step(context) if callable(step) else step
        return Proposal(chosen, f"step-{lane}", "compute", "because") if isinstance(chosen, Kernel) else chosen


def listed(*steps: Step) -> Planned:
    """One step per turn, in one lane, and no repairs."""
    return Planned({f"{number}.0": [step] for number, step in enumerate(steps, start=1)})


class Heard(list[Event]):
    """What was told, in order."""

    def of(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self if isinstance(event, kind)]


class Ticking:
    """A clock that goes on by a second whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


ENDLESS = StoppingCriteria(target_speedup=1e9, max_iterations=10)


def run(
    folder: Path,
    start: Kernel,
    proposer: Any,
    evaluator: Scripted | Sequence[Scripted] | None = None,
    criteria: StoppingCriteria = ENDLESS,
    emit: Emit = ignore,
    clock: Callable[[], float] = lambda: 0.0,
    searcher: Scripted | None = None,
    others: Sequence[Kernel] = (),
) -> Outcome:
    """A run in a folder, which goes on from what it finds there. Without a searcher, its evaluators search too."""

    def search(evaluator: Any) -> Any:
        return searcher or evaluator

    pool = [evaluator or Scripted()] if evaluator is None or isinstance(evaluator, Scripted) else list(evaluator)
    with Journal(folder / "journal.jsonl") as journal:
        workbench = Workbench(PROBLEM, pool, search, journal, emit, judge=lambda evaluation: evaluation)  # type: ignore
        written = partial(keep, journal)
        return Optimization(workbench, start, proposer, criteria, emit, written, clock=clock, others=others).run()


def trials(limit: int) -> StoppingCriteria:
    return StoppingCriteria(target_speedup=1e9, max_iterations=10, budget=Budget(trials=limit))


TUNED = kernel(20.0, SPEED=20)
SPACE = SearchSpace.of({"SPEED": [20, 16, 12, 8]}, SPEED=20)


class Bench:
    """A workbench over a journal in a folder, with what it is made of."""

    def __init__(
        self, folder: Path, evaluators: int = 1, evaluator: Scripted | None = None, finalist: Any = None
    ) -> None:
        self.evaluator = evaluator or Scripted()
        self.searcher = Scripted()
        self.searchers = 0
        self.heard = Heard()
        self.journal = Journal(folder / "journal.jsonl")
        pool: list[Any] = [self.evaluator] * evaluators
        self.bench = Workbench(
            PROBLEM,
            pool,
            self._searcher,
            self.journal,
            self.heard.append,
            Ticking(),
            lambda evaluation: finalist or evaluation,  # type: ignore
        )

    def _searcher(self, evaluator: Any) -> Any:
        self.searchers += 1
        return self.searcher

    def lane(self, number: int = 1, index: int = 0) -> Lane:
        return Lane(self.bench, number, index, lambda: None)

    def origins(self) -> list[str]:
        return [trial.origin for trial in self.journal.of(Trial)]
