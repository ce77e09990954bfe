"""Evaluates a problem at several workloads as one: each config at every workload, merged into one evaluation."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from ..core import Config, Evaluation, Evaluator, JointProblem, Judge, Kernel, Problem, Profile, Screener, TorchProblem
from ..core.workload_rows import merged

EvaluatorT = TypeVar("EvaluatorT", bound=Evaluator)
Item = TypeVar("Item")
JudgeT = TypeVar("JudgeT", bound=Judge)
ScreenerT = TypeVar("ScreenerT", bound=Screener)


class SeveralWorkloads(Generic[EvaluatorT]):
    """An evaluator for `JointProblem`, over one evaluator for each workload; any other problem goes to the first.

    Each workload keeps its own processes, so that neither reference nor weights are drawn again for every config.
    `known` evaluations are measured again: which code a config compiles to differs between workloads.
    """

    def __init__(
        self,
        first: EvaluatorT,
        another: Callable[[], EvaluatorT],
        prepare: Callable[[EvaluatorT, Problem, Kernel], None] | None = None,
        side_by_side: bool = False,
    ) -> None:
        """`another` makes one more evaluator like the first; the caller closes all.

        `prepare` gets an evaluator ready for a problem and a kernel, and is called for all workloads at once.
        `side_by_side` evaluators compile at the same time, and measure one after the other by themselves.
        """
        self.first = first
        self._another = another
        self._prepare = prepare
        self._side_by_side = side_by_side
        self._members = [first]
        self._prepared: JointProblem | None = None

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """One evaluation per config, in order; see `core.Evaluator`."""
        if not isinstance(problem, JointProblem) or not problem.members:
            yield from self.first.evaluate(problem, kernel, configs, known)
            return
        at = self._at(problem, kernel)
        # Each evaluator draws the same configs, none before one of them needs it.
        shared = _Shared(configs)
        yield from self._together(problem, [evaluator.evaluate(member, kernel, shared()) for evaluator, member in at])

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """One evaluation per config; at each workload all are timed interleaved. See `core.Evaluator`."""
        if not isinstance(problem, JointProblem) or not problem.members:
            return self.first.compare(problem, kernel, configs)
        found = [evaluator.compare(member, kernel, configs) for evaluator, member in self._at(problem, kernel)]
        return [merged(dict(zip(problem.members, row, strict=True))) for row in zip(*found, strict=True)]

    def profile(self, problem: Problem) -> Profile:
        """Return the profile of all workloads; see `merged_profile`."""
        return merged_profile(list(self.profiles(problem).values()))

    def profiles(self, problem: Problem) -> dict[str, Profile]:
        """Return the profile at each workload, by name."""
        if not isinstance(problem, JointProblem) or not problem.members:
            return {problem.workload: self.first.profile(problem)}
        return {member.workload: evaluator.profile(member) for evaluator, member in self._at(problem)}

    def _at(self, problem: JointProblem, kernel: Kernel | None = None) -> list[tuple[EvaluatorT, TorchProblem]]:
        while len(self._members) < len(problem.members):
            self._members.append(self._another())
        at = list(zip(self._members, problem.members.values(), strict=False))
        prepare = self._prepare
        if prepare is not None and kernel is not None and self._prepared != problem:
            self._prepared = problem
            with ThreadPoolExecutor(len(at), "prepare") as threads:
                for future in [threads.submit(prepare, evaluator, member, kernel) for evaluator, member in at]:
                    future.result()
        return at

    def _together(self, problem: JointProblem, running: Sequence[Generator[Evaluation]]) -> Generator[Evaluation]:
        """Yield merged evaluations of generators that give one for each workload; they are closed with this one."""
        with contextlib.ExitStack() as stack:
            for item in running:
                stack.enter_context(contextlib.closing(item))
            # Left before the generators are closed: none may be at work then.
            threads = stack.enter_context(ThreadPoolExecutor(len(running), "workload"))
            draw = threads.map if self._side_by_side else map
            while True:
                rows = [row for row in draw(_next, running) if row is not None]
                if not rows:
                    return
                yield merged(dict(zip(problem.members, rows, strict=True)))


class SearchingSeveral(SeveralWorkloads[ScreenerT]):
    """The same for searches."""

    def screen(self, problem: Problem, kernels: Sequence[Kernel]) -> Generator[Evaluation]:
        """One evaluation per kernel, in order; see `core.Screener`."""
        if not isinstance(problem, JointProblem) or not problem.members:
            yield from self.first.screen(problem, kernels)
            return
        at = self._at(problem, kernels[0] if kernels else None)
        yield from self._together(problem, [evaluator.screen(member, kernels) for evaluator, member in at])


class JudgingSeveral(SeveralWorkloads[JudgeT]):
    """The same for last checks."""

    def contest(self, problem: Problem, kernels: Sequence[Kernel]) -> list[Evaluation]:
        """One evaluation per kernel; at each workload all are timed interleaved. See `core.Judge`."""
        if not isinstance(problem, JointProblem) or not problem.members:
            return self.first.contest(problem, kernels)
        found = [judge.contest(member, kernels) for judge, member in self._at(problem, kernels[0])]
        return [merged(dict(zip(problem.members, row, strict=True))) for row in zip(*found, strict=True)]


class _Shared(Generic[Item]):
    """Items for several readers, each of which gets all; they may draw in threads of their own."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._source = iter(items)
        self._drawn: list[Item] = []
        self._lock = threading.Lock()

    def __call__(self) -> Iterator[Item]:
        """Return one more reader."""
        for place in itertools.count():
            with self._lock:
                if place == len(self._drawn):
                    self._drawn += itertools.islice(self._source, 1)
                if place == len(self._drawn):
                    return
                item = self._drawn[place]
            yield item


def merged_profile(profiles: Sequence[Profile]) -> Profile:
    """Return the last workload's operators and device, with the geometric mean of all workloads' work."""
    if len(profiles) == 1:
        return profiles[0]
    counted = ("min_bytes", "eager_bytes", "flops", "matrix_flops")
    return profiles[-1].model_copy(
        update={name: _mean([getattr(profile, name) for profile in profiles]) for name in counted}
    )


def _next(running: Generator[Evaluation]) -> Evaluation | None:
    return next(running, None)


def _mean(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values) if all(values) else 0.0
