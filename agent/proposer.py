"""The interface of a proposer, and its exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..core import Problem, Profile, Proposal
from ..core.turn_record import SkippedRule
from .bottleneck import Analysis
from .lane import Lane
from .turn import Attempt, Candidate, Turn


@dataclass(frozen=True)
class TurnContext:
    """The start of a turn."""

    problem: Problem
    profile: Profile
    candidate: Candidate
    """The kernel to improve."""
    analysis: Analysis
    turns: Sequence[Turn]
    """All earlier turns."""
    lane: Lane
    variant: int = 0
    """Number of earlier expansions of the same candidate: the index of the suggestion to follow."""
    skipped_rules: Sequence[SkippedRule] = ()
    """Rules that make no change of the candidate, where a model is told so."""


@dataclass(frozen=True)
class Rewrites:
    """Several changes of the candidate, each for itself, to be tried in one turn."""

    proposals: tuple[Proposal, ...]
    """The most promising first. Their spaces have all parameters that are worth searching."""
    combine: Callable[[Sequence[str]], Proposal | None]
    """Returns the candidate with several of the changes in sequence, by their strategies; None where they do not go
    together."""


class NoKernelError(Exception):
    """A reply without a usable kernel; the message gives the reason, for the next attempt to learn from."""


class RunEndedError(Exception):
    """The proposer cannot continue: a budget is spent, or the model failed. The message says which."""


class Proposer(Protocol):
    """Decides what to try next."""

    def analyse(self, context: TurnContext) -> Analysis:
        """Return the bottleneck of the candidate; `context.analysis` is the one by metrics alone.

        Called in every lane. Lanes that expand the same candidate may share the result of the lane with variant 0, so
        that a resumed run finds it in the same place.
        """
        ...

    def propose(self, context: TurnContext, failed: Sequence[Attempt] = ()) -> Proposal | Rewrites | None:
        """Return one or several changes of the candidate, given the turns so far; None if nothing is left to try.

        `failed` are this turn's failed attempts: the last is to be repaired, or given up with None. Raises
        `NoKernelError` and `RunEndedError`.
        """
        ...
