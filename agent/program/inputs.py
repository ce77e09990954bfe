"""The inputs of each part of the program for a turn."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core import Kernel, Problem, TorchProblem, source_lines
from ...core.quotation import quoted
from ...core.syntax_tree import syntax_tree
from ...prompts import guide_for, sections
from ..proposer import TurnContext
from ..turn import Attempt
from . import briefing
from .device import device_text, versions_text
from .suggestions import suggestion_text

EXAMPLE_TOKENS = 6_000
PYTHON = "python"


@dataclass(frozen=True)
class Detail:
    """How much of the past, of rules that do not fit, of examples and of a failure's output a prompt contains."""

    turns: int
    rules: int
    example_tokens: int
    log: bool


DETAILS = (
    Detail(turns=briefing.RECENT, rules=8, example_tokens=EXAMPLE_TOKENS, log=True),
    Detail(turns=2, rules=3, example_tokens=EXAMPLE_TOKENS // 4, log=False),
    Detail(turns=0, rules=0, example_tokens=0, log=False),
)
"""Tried in this order when the model finds the prompt too long."""


def analysis_inputs(context: TurnContext, detail: Detail) -> dict[str, str]:
    """Return the inputs of `signatures.AnalyseBottleneck`."""
    measured = briefing.ran_text(context.profile, context.candidate)
    return {
        **_task(context),
        "measured": quoted(f"{measured}\n{briefing.reading_text(context.analysis)}"),
        "past_turns": _past(context, detail),
    }


def rewrite_inputs(context: TurnContext, detail: Detail, examples: Callable[[str, int], str]) -> dict[str, str]:
    """Return the inputs of `signatures.RewriteKernel`; `examples` finds some for a suggestion, up to a token limit."""
    suggestions = context.analysis.suggestions
    idea = suggestions[context.variant] if context.variant < len(suggestions) else ""
    found = examples(idea, detail.example_tokens)
    return {
        **_task(context),
        "measured": quoted(briefing.roofline_text(context.profile, context.candidate)),
        "bottleneck": quoted(briefing.analysis_text(context.analysis)),
        "suggestion": suggestion_text(suggestions, context.variant),
        "examples": quoted(found) if found else "none",
        "guide": _guide_titles(context.candidate.kernel),
        "past_turns": _past(context, detail),
    }


def repair_inputs(context: TurnContext, detail: Detail, failed: Sequence[Attempt]) -> dict[str, str]:
    """Return the inputs of `signatures.RepairKernel`."""
    proposal = failed[-1].proposal
    return {
        **_task(context),
        "failed": quoted(proposal.kernel.source, PYTHON) if proposal else "there was no kernel in the reply",
        "failure": quoted(briefing.failed_text(failed, detail.log)),
        "suggestion": suggestion_text(context.analysis.suggestions, context.variant),
        "guide": _guide_titles(context.candidate.kernel),
    }


def reference_text(problem: Problem) -> str:
    """Return the reference's source without the sizes of other workloads."""
    source = TorchProblem.of(problem).source
    lines = source_lines(source, keepends=True)
    for node in reversed(syntax_tree(source).body):
        targets = node.targets if isinstance(node, ast.Assign) else ()
        if any(isinstance(target, ast.Name) and target.id == "WORKLOADS" for target in targets):
            first = node.lineno - 1
            while first and not lines[first - 1].strip():
                first -= 1
            del lines[first : node.end_lineno]
    return "".join(lines)


def _task(context: TurnContext) -> dict[str, str]:
    evaluation = context.candidate.evaluation
    workload = briefing.workload_text(context.problem) + briefing.precision_text(evaluation)
    versions = versions_text(context.candidate.kernel, evaluation.environment)
    return {
        "reference": quoted(reference_text(context.problem), PYTHON),
        "workload": quoted("\n".join(filter(None, [workload, briefing.tolerance_text(evaluation)]))),
        "source": quoted(context.candidate.kernel.source, PYTHON),
        "device": "\n".join(filter(None, [device_text(context.profile), versions])),
    }


def _past(context: TurnContext, detail: Detail) -> str:
    past = briefing.history_text(context.turns, detail.turns, context.candidate.kernel)
    rules = briefing.skipped_text(context.skipped_rules, detail.rules)
    return quoted("\n".join(filter(None, [past, rules])))


def _guide_titles(kernel: Kernel) -> str:
    return "; ".join(sections(guide_for(kernel.language, kernel.target)))
