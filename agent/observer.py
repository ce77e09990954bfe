"""Who watches the loop. Every method does nothing here; the command line derives from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core import Evaluation, Profile, Proposal, ToolCall
    from ..core.turn_record import SkippedRule
    from .analysis import Analysis
    from .turn import Turn


class LoopObserver:
    """Receives the events of a run. With a beam, lanes call it from their own threads."""

    def started(self, start: Evaluation, profile: Profile) -> None:
        """The start kernel was evaluated."""

    def analysed(self, lane: str, analysis: Analysis) -> None:
        """The bottleneck was found."""

    def proposed(self, lane: str, proposal: Proposal, trials: int) -> None:
        """A kernel was proposed, and at most `trials` configs of it will be tried."""

    def rules_skipped(self, lane: str, rules: Sequence[SkippedRule]) -> None:
        """These rules made no change of the turn's kernel: they do not fit it, or they failed."""

    def screening(self, lane: str, proposals: Sequence[Proposal]) -> None:
        """Several changes are tried side by side, one trial each, and one more for the kernel as it is."""

    def trial(self, origin: str, evaluation: Evaluation) -> None:
        """A config was evaluated."""

    def tool(self, lane: str, call: ToolCall) -> None:
        """A model used a tool."""

    def failed(self, lane: str, error: str) -> None:
        """A proposal failed."""

    def turn_ended(self, turn: Turn) -> None:
        """A turn is over."""

    def close(self) -> None:
        """The run ended, however: leave the terminal as it was."""
