"""Evaluates a problem at several workloads as one: each config at every workload, merged into one evaluation."""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Generic, TypeVar

from ..core import Config, Evaluation, Evaluator, JointProblem, Kernel, Problem, Profile, TorchProblem
from ..core.workload_rows import merged

EvaluatorT = TypeVar("EvaluatorT", bound=Evaluator)


class SeveralWorkloads(Generic[EvaluatorT]):
    """An evaluator for `JointProblem`, over one evaluator for each workload; any other problem goes to the first.

    Each workload keeps its own processes, so that neither reference nor weights are drawn again for every config.
    `known` evaluations are measured again: which code a config compiles to differs between workloads.
    """

    def __init__(self, first: EvaluatorT, another: Callable[[], EvaluatorT]) -> None:
        """`another` makes one more evaluator like the first; the caller closes all."""
        self.first = first
        self._another = another
        self._members = [first]

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """One evaluation per config, in order; see `core.Evaluator`."""
        if not isinstance(problem, JointProblem) or not problem.members:
            yield from self.first.evaluate(problem, kernel, configs, known)
            return
        at = self._at(problem)
        # Each evaluator draws the same configs, no earlier than the first one does.
        copies = itertools.tee(configs, len(at))
        with contextlib.ExitStack() as stack:
            running = [
                stack.enter_context(contextlib.closing(evaluator.evaluate(member, kernel, copy)))
                for (evaluator, member), copy in zip(at, copies, strict=True)
            ]
            for found in zip(*running, strict=True):
                yield merged(dict(zip(problem.members, found, strict=True)))

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """One evaluation per config; at each workload all are timed interleaved. See `core.Evaluator`."""
        if not isinstance(problem, JointProblem) or not problem.members:
            return self.first.compare(problem, kernel, configs)
        found = [evaluator.compare(member, kernel, configs) for evaluator, member in self._at(problem)]
        return [merged(dict(zip(problem.members, row, strict=True))) for row in zip(*found, strict=True)]

    def profile(self, problem: Problem) -> Profile:
        """Return the last workload's operators and device, with the geometric mean of all workloads' work."""
        if not isinstance(problem, JointProblem) or not problem.members:
            return self.first.profile(problem)
        found = [evaluator.profile(member) for evaluator, member in self._at(problem)]
        mean = {name: _mean([getattr(one, name) for one in found]) for name in ("min_bytes", "eager_bytes")}
        mean |= {name: _mean([getattr(one, name) for one in found]) for name in ("flops", "matrix_flops")}
        return found[-1].model_copy(update=mean)

    def _at(self, problem: JointProblem) -> list[tuple[EvaluatorT, TorchProblem]]:
        while len(self._members) < len(problem.members):
            self._members.append(self._another())
        return list(zip(self._members, problem.members.values(), strict=False))


def _mean(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values) if all(values) else 0.0
