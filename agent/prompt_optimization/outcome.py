"""The outcome of instructions in one recorded context: the score, and the page that explains it."""

from __future__ import annotations

from dataclasses import dataclass

from ...core import ToolCall
from ...core.quotation import quoted
from ..bottleneck import Analysis
from ..program import briefing
from ..program.device import device_text
from ..program.inputs import PYTHON
from ..proposer import TurnContext
from ..turn import Attempt, Candidate, diff

ANALYSE, REWRITE, REPAIR = "analyse", "rewrite.react", "repair.react"
"""The predictors of `KernelProgram`."""
SOURCE_CHARACTERS = 8000
RESULT_CHARACTERS = 600
"""Maximum length of a tool's answer on the page from which instructions are improved."""


@dataclass(frozen=True)
class Try:
    """One attempt, with its tool calls."""

    attempt: Attempt
    correct: tuple[Candidate, ...]
    """Correct and timed kernels, including those that a tool evaluated."""
    tool_calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class Rollout:
    """The outcome of instructions in one context."""

    context: TurnContext
    metrics: Analysis
    """The analysis by metrics alone."""
    tries: tuple[Try, ...]
    """The rewrite, and its repair if it was not correct."""

    @property
    def found(self) -> Candidate | None:
        """The fastest correct kernel; one that other processes disturbed only if there is no other."""
        correct = [candidate for item in self.tries for candidate in item.correct]
        return min(correct, key=lambda tried: (tried.evaluation.contention is not None, tried.latency_ms), default=None)

    @property
    def gain(self) -> float:
        """How many times as fast as the kernel given; 0 when nothing was correct."""
        return self.context.candidate.latency_ms / self.found.latency_ms if self.found else 0.0

    @property
    def score(self) -> float:
        """0 when nothing was correct, 0.5 for a kernel no faster than the one given, towards 1 for ever faster ones.

        Two digits: what is less than the noise of a measurement must not decide.
        """
        return round(self.gain / (1.0 + self.gain), 2)

    @property
    def summary(self) -> str:
        """One line."""
        came = (
            f"{self.gain:.3f} times as fast" if self.gain else f"nothing correct ({self.tries[-1].attempt.error[:100]})"
        )
        return f"{came}, score {self.score:g}"

    @property
    def result(self) -> str:
        """Describe the measurements."""
        profile = self.context.profile
        lines = [
            f"attempt {number} failed:\n{quoted(briefing.attempt_text(item.attempt))}"
            for number, item in enumerate(self.tries, start=1)
            if not item.attempt.correct
        ]
        if self.found is None:
            return "\n".join([*lines, "In the end nothing was correct: score 0."])
        given, got = self.context.candidate.latency_ms, self.found.latency_ms
        lines += [
            briefing.measured_text(self.found.evaluation),
            f"{self.gain:.3f} times as fast as the kernel given, which took {given:.4g} ms: score {self.score:g}",
            f"that is {got / profile.floor_ms:.2f} times the roofline floor of {profile.floor_ms:.4g} ms; the kernel "
            f"given stood at {given / profile.floor_ms:.2f} times",
        ]
        return "\n".join(lines)

    def page(self, predictor: str) -> str:
        """All that a reader needs who improves the instructions of one predictor."""
        context, analysis = self.context, self.context.analysis
        kernel = context.candidate.kernel
        given = [
            quoted(kernel.source[:SOURCE_CHARACTERS], PYTHON),
            quoted(briefing.workload_text(context.problem)),
            device_text(context.profile),
        ]
        if predictor == ANALYSE:
            given += [
                quoted(briefing.ran_text(context.profile, context.candidate)),
                briefing.reading_text(self.metrics),
                quoted(briefing.history_text(context.turns, shown=kernel)),
            ]
            done = [briefing.analysis_text(analysis), "suggested:", *(f"- {idea}" for idea in analysis.suggestions)]
        else:
            given += [
                briefing.measured_text(context.candidate.evaluation),
                briefing.analysis_text(analysis),
                f"suggestion to follow: {next(iter(analysis.suggestions), 'none')}",
            ]
            done = [line for item in self.tries for line in (*map(_told, item.tool_calls), self._change(item.attempt))]
        return "\n".join(["## Given", *given, "", "## Done", *done, "", "## Result", self.result])

    def _change(self, attempt: Attempt) -> str:
        if attempt.proposal is None:
            return f"submitted nothing that could be used: {attempt.error}"
        change = diff(self.context.candidate.kernel.source, attempt.proposal.kernel.source)[:SOURCE_CHARACTERS]
        told = quoted(change, "diff")
        return f"submitted {attempt.proposal.strategy}: {attempt.proposal.rationale}\n{told}"


def _told(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={str(value)[:60]!r}" for name, value in call.arguments.items())
    return f"called {call.name}({arguments}):\n{quoted(call.result[:RESULT_CHARACTERS])}"
