"""Tries several changes of a kernel in one turn: each alone, then combinations, then a search of the best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core import Config, Evaluation, Proposal
from ..core.events import Emit, Proposed
from .effort import MOST, effort
from .lane import Lane
from .proposer import Rewrites
from .searches import WantedSearch
from .turn import Attempt, Candidate

TUNER = "portfolio"
MIN_GAIN = 1.02
"""Minimum gain in a screening. A smaller gain is noise."""
MIN_NEUTRAL_GAIN = 0.97
"""Minimum gain in a screening of a change that counts as neutral."""
MAX_SLOWDOWN = 1.05
"""Maximum slowdown of one of several workloads in a screening. The full evaluation is stricter."""
MAX_COMBINED = 5
"""Maximum number of changes in a combination."""
RIVAL_SHARE = 0.5
"""Fraction of the best gain above which a change that the best excludes is tried with more choices."""
CLOSE_FACTOR = 1.15
"""A change with parameters is searched, too, if the best gain is at most this multiple of its gain."""
MIN_PROMISING_GAIN = 0.85
"""Minimum gain of a change with parameters that is searched if no change helped by itself."""
MAX_SEARCHED = 2
"""Maximum number of changes that are searched in a turn."""
FEW_TRIALS = 12
"""Number of trials for a change that is not the best of its turn."""
PATIENCE = 12
"""Number of successive trials without improvement that end a search."""


@dataclass(frozen=True)
class Screened:
    """A change, its quick evaluation, and its speedup over the turn's kernel in the same screening."""

    names: tuple[str, ...]
    """The strategies that it is made of."""
    proposal: Proposal
    evaluation: Evaluation
    gain: float

    def attempt(self) -> Attempt:
        """Return the change as one of the turn's attempts."""
        failure = "" if self.evaluation.ok else f"{self.evaluation.status}: {self.evaluation.message}"
        return Attempt(self.proposal, (self.evaluation,), failure, self.gain)


class Batch:
    """The changes of one turn.

    Which of them are combined and searched follows from what was measured, and that is in journals: a resumed run
    takes the same way.
    """

    def __init__(self, lane: Lane, candidate: Candidate, rewrites: Rewrites, emit: Emit) -> None:
        self._lane = lane
        self._candidate = candidate
        self._rewrites = rewrites
        self._emit = emit
        self._together: dict[tuple[str, ...], Proposal | None] = {}

    def run(self) -> list[Attempt]:
        """Return all tried changes, followed by the searched ones, the most promising first."""
        screened = self._screen({(item.strategy,): item for item in self._rewrites.proposals})
        helped = sorted((item for item in screened if item.gain > MIN_GAIN), key=lambda item: -item.gain)
        wider = [item for item in screened if MIN_NEUTRAL_GAIN <= item.gain <= MIN_GAIN and self._widens(item.proposal)]
        pool = helped or screened
        # Rewriting takes seconds, so nothing is combined at the time limit.
        if not self._lane.late() and (together := self._combinations(helped[:MAX_COMBINED], wider[:MAX_COMBINED])):
            # The best single change is measured again with them, since times of two screenings do not compare.
            again = self._screen({**{item.names: item.proposal for item in helped[:1]}, **together})
            screened += again[len(helped[:1]) :]
            # Where the time was over before it was measured again, the best is still the best.
            pool = [*(again or helped[:1]), *(pool[1:] if helped else pool)]
        attempts = [item.attempt() for item in screened]
        for place, contender in enumerate(self._contenders(pool)):
            wins = place == 0 and contender.gain > MIN_GAIN
            late = self._lane.late() is not None
            if late and not wins:
                break  # the best is evaluated in any case, or nothing of the turn would count
            most = 0 if late else None if wins else FEW_TRIALS
            like, timed = (
                self._candidate.evaluation,
                contender.evaluation if contender.evaluation.latency_ms is not None else None,
            )
            attempts.append(search(self._lane, contender.proposal, like, self._emit, most, timed))
        return attempts

    def _screen(self, proposals: Mapping[tuple[str, ...], Proposal]) -> list[Screened]:
        """Measure the turn's kernel and the changes, until the run's time is over."""
        changes = list(proposals.values())
        self._emit(Proposed(self._lane.name, tuple(changes), len(changes) + 1, quick=True))
        kernel = self._candidate.kernel
        variants = [(kernel, Config()), *((change.kernel, introduced(change, kernel.config)) for change in changes)]
        found = self._lane.screen(variants, ["as it is", *(change.strategy for change in changes)])
        base = found[0] if found else self._candidate.evaluation
        base_ms = base.latency_ms or self._candidate.latency_ms
        return [
            Screened(names, proposal, evaluation, _gain(base_ms, evaluation, base))
            for (names, proposal), evaluation in zip(proposals.items(), found[1:], strict=False)
        ]

    def _widens(self, proposal: Proposal) -> bool:
        """Return whether a change adds parameters, or values for those that the kernel declares."""
        before = self._candidate.kernel
        return bool(introduced(proposal, before.config)) or proposal.kernel.declared_values != before.declared_values

    def _combinations(self, helped: Sequence[Screened], wider: Sequence[Screened]) -> dict[tuple[str, ...], Proposal]:
        """Return the changes that helped together: as many as go together, the first with each, and what is between.

        Some exclude each other, such as two ways to compute a product. Changes that cost nothing and bring choices come
        along with all, with the first, and with what it excludes: that may have been measured at values that suit
        another. Where nothing helped, they are taken together. What promises most is first, as the time may end.
        """
        names, brought = [item.names[0] for item in helped], [item.names[0] for item in wider]
        chain = self._sequence(names[:1], names[1:])
        rivals = [
            item.names[0]
            for item in helped[1:]
            if item.gain >= RIVAL_SHARE * helped[0].gain and self._sequence(names[:1], item.names) == names[:1]
        ]
        wanted = [self._sequence(begin, brought) for begin in (chain, names[:1], *([rival] for rival in rivals))]
        wanted += [chain[:count] for count in range(len(chain), 1, -1)]
        wanted += [[names[0], other] for other in names[1:]]
        known = {item.kernel.digest for item in self._rewrites.proposals}
        made: dict[tuple[str, ...], Proposal] = {}
        for sequence in map(tuple, wanted):
            proposal = self._combined(sequence) if len(sequence) > 1 else None
            if proposal is not None and proposal.kernel.digest not in known:
                known.add(proposal.kernel.digest)
                made[sequence] = proposal
        return made

    def _sequence(self, begin: Sequence[str], more: Iterable[str]) -> list[str]:
        """Return the changes, extended by each other change that combines with those before it."""
        names = [*begin]
        for name in more:
            if not names or self._combined((*names, name)) is not None:
                names.append(name)
        return names

    def _combined(self, names: tuple[str, ...]) -> Proposal | None:
        if names not in self._together:
            self._together[names] = self._rewrites.combine(names)
        return self._together[names]

    def _contenders(self, pool: Sequence[Screened]) -> list[Screened]:
        """Return the changes that are worth a full evaluation, the best first."""
        best = max(pool, key=lambda item: item.gain, default=None)
        if best is None:
            return []
        # The same with more choices is as good a start of a search.
        richer = [item for item in pool if {*best.names} <= {*item.names} and item.gain >= MIN_NEUTRAL_GAIN * best.gain]
        first = max(richer, key=lambda item: (_choices(item.proposal), item.gain))
        if best.gain <= MIN_GAIN:
            promising = [item for item in pool if item.gain >= MIN_PROMISING_GAIN and _choices(item.proposal) > 1]
            # The one with the most choices among those without a slowdown.
            return sorted(
                promising, key=lambda item: (item.gain < MIN_NEUTRAL_GAIN, -_choices(item.proposal), -item.gain)
            )[:1]
        others = [item for item in pool if item is not best and item is not first]
        close = [item for item in others if best.gain <= CLOSE_FACTOR * item.gain and _choices(item.proposal) > 1]
        return [first, *sorted(close, key=lambda item: -item.gain)][:MAX_SEARCHED]


def search(
    lane: Lane,
    proposal: Proposal,
    like: Evaluation,
    emit: Emit,
    most: int | None = None,
    known: Evaluation | None = None,
) -> Attempt:
    """Search the proposal's parameters with `most` trials, or evaluate it in full if it has none.

    `like` is the evaluation of a similar kernel, which tells what a trial costs; `known` a quick one of this kernel.
    """
    space, kernel = proposal.space, proposal.kernel
    if space is None or _choices(proposal) < 2 or most == 0:
        emit(Proposed(lane.name, (proposal,), 1))
        evaluations: tuple[Evaluation, ...] = (lane.evaluate(kernel, Config(), proposal.strategy),)
    else:
        start = lane.workbench.start or like
        # What came out of a search was compiled before it was evaluated.
        compile_s = max((item.compile_s for item in (start, like) if item.compile_s is not None), default=None)
        budget = effort(space, like.model_copy(update={"compile_s": compile_s}), lane.workbench.compilers)
        trials = min(budget.trials or MOST, MOST if most is None else most)
        emit(Proposed(lane.name, (proposal,), trials))
        wanted = WantedSearch(kernel, space, TUNER, trials, budget.seconds, PATIENCE, known)
        found = lane.tune(wanted, proposal.strategy)
        evaluations = (*found.evaluations, *found.finals)
    correct = any(item.ok for item in evaluations)
    failure = "" if correct else next(f"{item.status}: {item.message}" for item in evaluations)
    return Attempt(proposal, evaluations, failure)


def introduced(proposal: Proposal, before: Iterable[str]) -> Config:
    """Return the values of the parameters that a change brings, as it has them."""
    names = set(proposal.space.names if proposal.space else ()) - set(before)
    return Config({name: value for name, value in proposal.kernel.config.items() if name in names})


def _gain(base_ms: float, evaluation: Evaluation, base: Evaluation) -> float:
    """Return the speedup; 0.0 if it was not timed, or if one of several workloads is slower."""
    if evaluation.latency_ms is None:
        return 0.0
    before = {name: row.latency_ms for name, row in base.workloads.items()}
    ratios = ((row.latency_ms or 0.0) / (before.get(name) or math.inf) for name, row in evaluation.workloads.items())
    return 0.0 if any(ratio > MAX_SLOWDOWN for ratio in ratios) else base_ms / evaluation.latency_ms


def _choices(proposal: Proposal) -> int:
    return proposal.space.cardinality if proposal.space is not None else 1
