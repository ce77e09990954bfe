"""What each part of the program is given of a situation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core import Kernel, TorchProblem
from ...prompts import guide_for, sections
from ..proposer import TurnContext
from ..turn import Attempt
from . import briefing

EXAMPLE_TOKENS = 12_000


@dataclass(frozen=True)
class Detail:
    """How much of the past, of the examples and of a failure's output a prompt holds."""

    turns: int
    example_tokens: int
    log: bool


DETAILS = (
    Detail(briefing.RECENT, EXAMPLE_TOKENS, log=True),
    Detail(2, EXAMPLE_TOKENS // 4, log=False),
    Detail(0, 0, log=False),
)
"""Tried in this order when the model finds the prompt too long."""


def analysis_inputs(situation: TurnContext, detail: Detail) -> dict[str, str]:
    """Of `signatures.AnalyseBottleneck`."""
    return {
        **_task(situation),
        "roofline": briefing.roofline_text(situation.profile, situation.candidate.evaluation),
        "profile": briefing.analysis_text(situation.analysis),
        "past_turns": briefing.history_text(situation.turns, detail.turns),
    }


def rewrite_inputs(situation: TurnContext, detail: Detail, examples: Callable[[str, int], str]) -> dict[str, str]:
    """Of `signatures.RewriteKernel`; `examples` finds some for a suggestion, in so many tokens."""
    suggestion = _suggestion(situation)
    return {
        **_task(situation),
        "measured": briefing.roofline_text(situation.profile, situation.candidate.evaluation),
        "bottleneck": briefing.analysis_text(situation.analysis),
        "suggestion": suggestion,
        "examples": examples(suggestion, detail.example_tokens) or "none",
        "guide": _guide_titles(situation.candidate.kernel),
        "past_turns": briefing.history_text(situation.turns, detail.turns),
    }


def repair_inputs(situation: TurnContext, detail: Detail, failed: Sequence[Attempt]) -> dict[str, str]:
    """Of `signatures.RepairKernel`."""
    proposal = failed[-1].proposal
    return {
        **_task(situation),
        "failed": proposal.kernel.source if proposal else "there was no kernel in the reply",
        "failure": briefing.failed_text(failed, detail.log),
        "suggestion": _suggestion(situation),
        "guide": _guide_titles(situation.candidate.kernel),
    }


def _task(situation: TurnContext) -> dict[str, str]:
    return {
        "reference": TorchProblem.of(situation.problem).source,
        "workload": briefing.workload_text(situation.problem),
        "source": situation.candidate.kernel.source,
        "device": briefing.device_text(situation.profile),
    }


def _suggestion(situation: TurnContext) -> str:
    """The one that this lane follows."""
    suggestions = situation.analysis.suggestions
    return suggestions[situation.variant % len(suggestions)] if suggestions else "what the evidence suggests"


def _guide_titles(kernel: Kernel) -> str:
    return "; ".join(sections(guide_for(kernel.language, kernel.target)))
