"""What the loop asks of a proposer, and how a proposer says that it cannot go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..core import Problem, Profile, Proposal
from .analysis import Analysis
from .turn import Attempt, Candidate, Turn
from .workbench import Lane


@dataclass(frozen=True)
class TurnContext:
    """Where a turn begins."""

    problem: Problem
    profile: Profile
    candidate: Candidate
    """What is to be made faster."""
    analysis: Analysis
    turns: Sequence[Turn]
    """All earlier ones."""
    lane: Lane
    variant: int = 0
    """How many other expansions of the same candidate come before this one: so many suggestions are taken."""


class NoKernel(Exception):
    """A reply from which no kernel can be taken; the message says why, for the next attempt to learn from."""


class RunEnded(Exception):
    """The proposer cannot go on: a budget is spent, or the model fails. The message says which, in words."""


class Proposer(Protocol):
    """Decides what to try next."""

    def analyse(self, situation: TurnContext) -> Analysis:
        """The bottleneck of the candidate; `situation.analysis` is what the figures alone say.

        Asked in every lane. Those that expand the same candidate may share an answer: that of the lane whose variant is
        0, so that a resumed run finds it in the same place.
        """
        ...

    def propose(self, situation: TurnContext, failed: Sequence[Attempt] = ()) -> Proposal | None:
        """A change of the candidate in the light of the turns so far; None when nothing is left to try.

        `failed` are the attempts of this turn that did not come out right: the last is to be repaired, or given up
        with None. Raises `NoKernel` and `RunEnded`.
        """
        ...
