"""The inputs of each part of the program for a turn."""

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
    """How much of the past, of the examples and of a failure's output a prompt contains."""

    turns: int
    example_tokens: int
    log: bool


DETAILS = (
    Detail(briefing.RECENT, EXAMPLE_TOKENS, log=True),
    Detail(2, EXAMPLE_TOKENS // 4, log=False),
    Detail(0, 0, log=False),
)
"""Tried in this order when the model finds the prompt too long."""


def analysis_inputs(context: TurnContext, detail: Detail) -> dict[str, str]:
    """Return the inputs of `signatures.AnalyseBottleneck`."""
    return {
        **_task(context),
        "roofline": briefing.roofline_text(context.profile, context.candidate.evaluation),
        "profile": briefing.analysis_text(context.analysis),
        "past_turns": briefing.history_text(context.turns, detail.turns),
    }


def rewrite_inputs(context: TurnContext, detail: Detail, examples: Callable[[str, int], str]) -> dict[str, str]:
    """Return the inputs of `signatures.RewriteKernel`; `examples` finds some for a suggestion, up to a token limit."""
    suggestion = _suggestion(context)
    return {
        **_task(context),
        "measured": briefing.roofline_text(context.profile, context.candidate.evaluation),
        "bottleneck": briefing.analysis_text(context.analysis),
        "suggestion": suggestion,
        "examples": examples(suggestion, detail.example_tokens) or "none",
        "guide": _guide_titles(context.candidate.kernel),
        "past_turns": briefing.history_text(context.turns, detail.turns),
    }


def repair_inputs(context: TurnContext, detail: Detail, failed: Sequence[Attempt]) -> dict[str, str]:
    """Return the inputs of `signatures.RepairKernel`."""
    proposal = failed[-1].proposal
    return {
        **_task(context),
        "failed": proposal.kernel.source if proposal else "there was no kernel in the reply",
        "failure": briefing.failed_text(failed, detail.log),
        "suggestion": _suggestion(context),
        "guide": _guide_titles(context.candidate.kernel),
    }


def _task(context: TurnContext) -> dict[str, str]:
    return {
        "reference": TorchProblem.of(context.problem).source,
        "workload": briefing.workload_text(context.problem) + briefing.precision_text(context.candidate.evaluation),
        "source": context.candidate.kernel.source,
        "device": briefing.device_text(context.profile),
    }


def _suggestion(context: TurnContext) -> str:
    """Return the suggestion that this lane follows."""
    suggestions = context.analysis.suggestions
    return suggestions[context.variant % len(suggestions)] if suggestions else "what the evidence suggests"


def _guide_titles(kernel: Kernel) -> str:
    return "; ".join(sections(guide_for(kernel.language, kernel.target)))
