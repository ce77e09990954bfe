"""The interface of an observer of a run; the command line implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..core import Evaluation, Profile, Proposal, ToolCall
from .analysis import Analysis
from .turn import Turn


class Observer(Protocol):
    """Receives the events of a run. With a beam, lanes call it from their own threads."""

    def started(self, start: Evaluation, profile: Profile) -> None:
        """The start kernel was measured."""

    def analysed(self, lane: str, analysis: Analysis) -> None:
        """A lane has its analysis."""

    def proposed(self, lane: str, proposal: Proposal, trials: int) -> None:
        """A lane has a proposal, with its number of trials."""

    def screening(self, lane: str, proposals: Sequence[Proposal]) -> None:
        """A lane tries several proposals side by side, each with a trial of its own."""

    def trial(self, origin: str, evaluation: Evaluation) -> None:
        """An evaluation ended."""

    def tool(self, lane: str, call: ToolCall) -> None:
        """A model called a tool."""

    def failed(self, lane: str, error: str) -> None:
        """A lane failed to get a proposal."""

    def turn_ended(self, turn: Turn) -> None:
        """A turn ended."""

    def close(self) -> None:
        """The run ended, or failed: release the screen."""
