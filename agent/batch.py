"""Tries several changes of a kernel in one turn: each for itself, then those that helped together, then searched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..core import Config, Evaluation, Proposal
from .effort import MOST, effort
from .lane import Lane
from .observer import Observer
from .proposer import Rewrites
from .turn import Attempt, Candidate

TUNER = "portfolio"
HELPED = 1.02
"""A smaller gain in a quick measurement is noise."""
LOST = 1.05
"""How much longer one of several workloads may take in a quick measurement; the full one is stricter."""
TOGETHER = 5
"""The most changes of a combination."""
CLOSE = 1.15
"""A change that is this close to the best, and has parameters, is searched too."""
PROMISING = 0.85
"""Where nothing helped by itself, a change with parameters that costs at most this much is searched."""
SEARCHED = 2
"""The most changes that are searched in a turn."""
FEW = 12
"""Trials for one that is not the best of its turn."""
PATIENCE = 12
"""Trials in a row without a better one that end a search."""


@dataclass(frozen=True)
class Screened:
    """A change, its quick evaluation, and its speedup over the kernel of the turn as measured beside it."""

    proposal: Proposal
    evaluation: Evaluation
    gain: float

    def attempt(self) -> Attempt:
        """Return it as one of the turn's attempts."""
        failure = "" if self.evaluation.ok else f"{self.evaluation.status}: {self.evaluation.message}"
        return Attempt(self.proposal, (self.evaluation,), failure, self.gain)


class Batch:
    """The changes of one turn.

    Which of them are combined and searched follows from what was measured, and that is in journals: a resumed run
    takes the same way.
    """

    def __init__(self, lane: Lane, candidate: Candidate, rewrites: Rewrites, observer: Observer) -> None:
        self._lane = lane
        self._candidate = candidate
        self._rewrites = rewrites
        self._observer = observer

    def run(self) -> list[Attempt]:
        """Return all changes that were tried, and last those that were searched, the most promising first of them."""
        screened = self._screen(self._rewrites.proposals)
        helped = sorted((one for one in screened if one.gain > HELPED), key=lambda one: -one.gain)
        together = self._combinations([one.proposal.strategy for one in helped[:TOGETHER]])
        if together and not self._lane.late():
            best = helped[0]
            # The best by itself is measured again beside them: times of two screenings do not compare.
            again = self._screen([best.proposal, *together])
            screened += again[1:]
            if again and again[0].gain > 0:
                helped = sorted([*again, *(one for one in helped if one is not best)], key=lambda one: -one.gain)
        attempts = [one.attempt() for one in screened]
        for place, one in enumerate(self._contenders(helped, screened)):
            wins = place == 0 and one.gain > HELPED
            late = self._lane.late() is not None
            if late and not wins:
                break  # the best is evaluated in any case, or nothing of the turn would count
            most = 0 if late else None if wins else FEW
            attempts.append(search(self._lane, one.proposal, self._candidate.evaluation, self._observer, most))
        return attempts

    def _screen(self, proposals: Sequence[Proposal]) -> list[Screened]:
        """Measure the turn's kernel and the changes; fewer where the run's time is over."""
        self._observer.screening(self._lane.name, proposals)
        kernel = self._candidate.kernel
        variants = [(kernel, Config()), *((one.kernel, introduced(one, kernel.config)) for one in proposals)]
        found = self._lane.screen(variants, ["as it is", *(one.strategy for one in proposals)])
        base = found[0] if found else self._candidate.evaluation
        base_ms = base.latency_ms or self._candidate.latency_ms
        return [
            Screened(proposal, evaluation, _gain(base_ms, evaluation, base))
            for proposal, evaluation in zip(proposals, found[1:], strict=False)
        ]

    def _combinations(self, strategies: Sequence[str]) -> list[Proposal]:
        """Return the beginnings of the sequence, and the first with each of the others."""
        wanted = [tuple(strategies[:count]) for count in range(2, len(strategies) + 1)]
        wanted += [(strategies[0], other) for other in strategies[2:]]
        made = (self._rewrites.combine(names) for names in dict.fromkeys(wanted))
        known = {one.kernel.digest for one in self._rewrites.proposals}
        return list({one.kernel.digest: one for one in made if one and one.kernel.digest not in known}.values())

    def _contenders(self, helped: Sequence[Screened], screened: Sequence[Screened]) -> list[Screened]:
        """Return the changes that are worth a full evaluation, the best first."""
        if helped:
            best, *others = helped
            close = [one for one in others if best.gain <= CLOSE * one.gain and _has_choices(one.proposal)]
            return [best, *close][:SEARCHED]
        promising = [one for one in screened if one.gain >= PROMISING and _has_choices(one.proposal)]
        return sorted(promising, key=lambda one: -one.gain)[:1]


def search(lane: Lane, proposal: Proposal, like: Evaluation, observer: Observer, most: int | None = None) -> Attempt:
    """Search the proposal's parameters, with `most` trials, or evaluate it in full where there are none.

    `like` is the evaluation of a similar kernel, which tells what a trial costs.
    """
    space, kernel = proposal.space, proposal.kernel
    if space is None or not _has_choices(proposal) or most == 0:
        observer.proposed(lane.name, proposal, 1)
        evaluations: tuple[Evaluation, ...] = (lane.evaluate(kernel, Config(), proposal.strategy),)
    else:
        start = lane.workbench.start or like
        # What came out of a search was compiled before it was evaluated.
        compile_s = max((one.compile_s for one in (start, like) if one.compile_s is not None), default=None)
        budget = effort(space, like.model_copy(update={"compile_s": compile_s}), lane.workbench.compilers)
        trials = min(budget.trials or MOST, MOST if most is None else most)
        observer.proposed(lane.name, proposal, trials)
        found = lane.tune(kernel, space, TUNER, trials, budget.seconds, proposal.strategy, PATIENCE)
        evaluations = (*found.evaluations, *found.finals)
    correct = any(one.ok for one in evaluations)
    failure = "" if correct else next(f"{one.status}: {one.message}" for one in evaluations)
    return Attempt(proposal, evaluations, failure)


def introduced(proposal: Proposal, before: Iterable[str]) -> Config:
    """Return the values of the parameters that a change brings, as it has them."""
    names = set(proposal.space.names if proposal.space else ()) - set(before)
    return Config({name: value for name, value in proposal.kernel.config.items() if name in names})


def _gain(base_ms: float, evaluation: Evaluation, base: Evaluation) -> float:
    """Return the speedup; 0.0 for what was not timed, and where one of several workloads loses."""
    if evaluation.latency_ms is None:
        return 0.0
    before = {name: row.latency_ms for name, row in base.workloads.items()}
    ratios = ((row.latency_ms or 0.0) / (before.get(name) or math.inf) for name, row in evaluation.workloads.items())
    return 0.0 if any(ratio > LOST for ratio in ratios) else base_ms / evaluation.latency_ms


def _has_choices(proposal: Proposal) -> bool:
    return proposal.space is not None and proposal.space.cardinality > 1
