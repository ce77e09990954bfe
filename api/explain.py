"""What a failed evaluation means: the reason, the lines of the kernel around its place, and where to read on."""

from __future__ import annotations

from dataclasses import dataclass

from ..agent.program.briefing import advice
from ..agent.program.context import error_context, gist
from ..core import Evaluation, Kernel, Rejection, Status
from .guides import GuidePage, guide_of


@dataclass(frozen=True)
class Explanation:
    """A failure, explained."""

    status: Status
    text: str
    """The message, the lines of the kernel that it names with those around them, and the end of the output."""
    advice: str
    """What usually is wrong with a kernel that fails like this."""
    rejection: Rejection | None
    """The rule that the kernel broke, where it did."""
    guide: GuidePage
    """The titles of the guide to the kernel's language."""


def in_one_line(evaluation: Evaluation) -> str:
    """Why an evaluation failed, or a remark on it: the compiler's reason, not the code that it repeats."""
    return str(evaluation.rejection) if evaluation.rejection else gist(evaluation.message)


def explain(kernel: Kernel, evaluation: Evaluation) -> Explanation:
    """Explain why `evaluation`, which is not correct, failed; `kernel` is the source that was evaluated."""
    return Explanation(
        evaluation.status,
        error_context(kernel, evaluation),
        advice(evaluation.status),
        evaluation.rejection,
        guide_of(kernel),
    )
