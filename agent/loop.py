"""The multi-turn loop: analyse, propose, evaluate, keep the best."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..core import Budget, Config, Evaluation, Evaluator, Journal, Kernel, Problem, Profile, Proposal
from ..tuners import HillClimb
from .analysis import Analysis, Category, analyse
from .recall import Recalling
from .turn import Proposer, Turn

PATIENCE = 3
"""Turns in a row without the wanted improvement before the loop gives up."""


SIGNIFICANT = 1.01
"""Less than this is noise, and no reason to carry a change along."""


@dataclass(frozen=True)
class Goal:
    """When to stop."""

    target_speedup: float = 1.5
    max_iterations: int = 5
    min_improvement: float = 0.05
    trials_per_turn: int = 10
    budget: Budget = field(default_factory=Budget)


class Observer(Protocol):
    """Sees what happens; the command line shows it."""

    def started(self, start: Evaluation, profile: Profile) -> None: ...
    def turn_started(self, number: int, analysis: Analysis, proposal: Proposal, trials: int) -> None: ...
    def trial(self, origin: str, evaluation: Evaluation, best: Evaluation | None) -> None: ...
    def turn_ended(self, turn: Turn) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    start: Evaluation
    kernel: Kernel
    """The best kernel, its parameters bound; the start kernel when nothing was better."""
    best: Evaluation
    """Its last measurement, in a fresh process; the start's evaluation when that failed."""
    turns: tuple[Turn, ...]
    stopped: str
    """Why the loop ended, in words."""
    verified: bool

    def reached(self, target: float) -> bool:
        """Whether the verified speedup is at least the target."""
        speedup = self.best.speedup
        trusted = self.verified and self.best.contention is None
        return trusted and speedup is not None and speedup.ratio >= target


class Optimization:
    """One problem, one kernel to start from.

    Every trial goes into the journal. What the journal holds from an earlier run is recalled instead of
    measured, and a proposer decides by what it is told: so a resumed run takes the same turns up to where
    the earlier one ended, and goes on from there.
    """

    def __init__(
        self,
        problem: Problem,
        kernel: Kernel,
        evaluator: Evaluator,
        proposer: Proposer,
        goal: Goal,
        observer: Observer,
        journal: Journal,
    ) -> None:
        self.problem = problem
        self.evaluator = Recalling(evaluator, journal)
        self.journal = journal
        self.proposer = proposer
        self.goal = goal
        self.observer = observer
        self.kernel = kernel
        self.turns: list[Turn] = []
        self._started = time.monotonic()
        self._trials = 0
        # What was measured in this run, by the digest of the bound source: no search measures it again.
        self._seen: dict[str, Evaluation] = {}
        # What a kernel's last check found, by its digest.
        self._finals: dict[str, Evaluation] = {}
        # The best kernels so far, fastest last: should the last not stand its final check, the next one may.
        self._ladder: list[tuple[Kernel, Evaluation]] = []

    def run(self) -> Outcome:
        """Run to the end; a start kernel that fails ends it at once."""
        try:
            return self._run()
        finally:
            self.observer.close()

    def _run(self) -> Outcome:
        start = next(iter(self._evaluate(self.kernel, [Config()], "start")))
        if start.speedup is None:
            return Outcome(start, self.kernel, start, (), f"the start kernel: {start.message}", verified=start.ok)
        self._ladder.append((self.kernel, start))
        profile = self.evaluator.profile(self.problem)
        self.observer.started(start, profile)
        while (stopped := self._stop()) is None:
            analysis = analyse(profile, self.kernel, self._best, self._failed())
            proposal = self.proposer.propose(self.problem, self.kernel, analysis, self.turns)
            if proposal is None:
                stopped = "nothing left to try"
                break
            self._take(len(self.turns) + 1, analysis, proposal)
        return self._finish(start, stopped)

    @property
    def _best(self) -> Evaluation:
        return self._ladder[-1][1]

    def _take(self, number: int, analysis: Analysis, proposal: Proposal) -> None:
        before, best_ms = self.kernel, self._best.latency_ms or 0.0
        trials = min(self.goal.trials_per_turn, proposal.space.cardinality if proposal.space else 1)
        self.observer.turn_started(number, analysis, proposal, trials)
        evaluations = self._search(proposal, f"turn {number}: {proposal.strategy}", trials)
        right = [e for e in evaluations if e.latency_ms is not None]
        right = [e for e in right if e.contention is None] or right
        best = min(right, key=lambda e: e.latency_ms or 0.0, default=None)
        gain = best_ms / best.latency_ms if best and best.latency_ms else 1.0
        improved = best is not None and gain > SIGNIFICANT
        if best is not None and improved:
            self.kernel = proposal.kernel.bind(best.config)
            self._ladder.append((self.kernel, best))
        error = next((f"{e.status}: {e.message}" for e in evaluations if not e.ok), "")
        turn = Turn(
            number, analysis, proposal, before, tuple(evaluations), best, improved, gain if improved else 1.0, error
        )
        self.turns.append(turn)
        if len(list(self.journal.of_kind("turn"))) < number:
            self.journal.append({"kind": "turn", **turn.record()})
        self.observer.turn_ended(turn)

    def _search(self, proposal: Proposal, origin: str, trials: int) -> list[Evaluation]:
        if proposal.space is None:
            return list(self._evaluate(proposal.kernel, [Config()], origin))
        tuner = HillClimb(proposal.space, start=[proposal.space.default, *proposal.first])
        evaluations: list[Evaluation] = []
        while len(evaluations) < trials and (configs := tuner.ask(1)):
            source = proposal.kernel.bind(configs[0]).digest
            if source not in self._seen:
                (self._seen[source],) = self._evaluate(proposal.kernel, configs, origin)
                evaluations.append(self._seen[source])
            tuner.tell(configs[0], self._seen[source])
        return evaluations

    def _evaluate(self, kernel: Kernel, configs: Sequence[Config], origin: str) -> Sequence[Evaluation]:
        evaluations = []
        self.evaluator.origin = origin
        for evaluation in self.evaluator.evaluate(self.problem, kernel, configs):
            self._trials += 1
            self.observer.trial(origin, evaluation, self._best if self._ladder else None)
            evaluations.append(evaluation)
        return evaluations

    def _stop(self) -> str | None:
        goal, speedup = self.goal, self._best.speedup
        if speedup is not None and speedup.ratio >= goal.target_speedup and self._stands(goal.target_speedup):
            return f"target of {goal.target_speedup:g}x reached"
        if len(self.turns) >= goal.max_iterations:
            return f"{goal.max_iterations} iterations done"
        recent = self.turns[-PATIENCE:]
        if len(recent) == PATIENCE and all(turn.gain < 1 + goal.min_improvement for turn in recent):
            return f"{PATIENCE} turns in a row improved by less than {goal.min_improvement:.0%}"
        spent = Budget(trials=self._trials, seconds=time.monotonic() - self._started)
        return goal.budget.exhausted(spent)

    def _failed(self) -> list[Category]:
        return [Category(turn.proposal.category) for turn in self.turns if not turn.improved]

    def _stands(self, target: float) -> bool:
        """Whether the best kernel reaches the target again, in a fresh process and with the machine to itself.

        The best of many noisy trials looks faster than it is. What it is found to be now is what counts from here on.
        """
        kernel, _ = self._ladder[-1]
        again = self._measure_again(kernel)
        if again.speedup is None:
            if len(self._ladder) > 1:
                self._ladder.pop()
                self.kernel = self._ladder[-1][0]
            return False
        self._ladder[-1] = (kernel, again)
        return again.contention is None and again.speedup.ratio >= target

    def _measure_again(self, kernel: Kernel) -> Evaluation:
        if kernel.digest not in self._finals:
            (self._finals[kernel.digest],) = self._evaluate(kernel, [Config()], "final")
        return self._finals[kernel.digest]

    def _finish(self, start: Evaluation, stopped: str) -> Outcome:
        """Measure the winner again with new seeds in a fresh process; fall back when it does not stand."""
        for kernel, _ in reversed(self._ladder):
            final = self._measure_again(kernel)
            if final.speedup is not None:
                return Outcome(start, kernel, final, tuple(self.turns), stopped, verified=True)
        return Outcome(start, self.kernel, start, tuple(self.turns), "no kernel passed the final check", verified=False)
