"""The proposer that uses a language model, through the DSPy program."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import dspy
from pydantic import ValidationError

from ...core import Kernel, Proposal, Retriever
from ...core.events import Emit, ProposalFailed, ToolUsed
from ...core.text import first_line
from ...core.turn_record import SkippedRule
from ...rag.render import within
from ..bottleneck import Analysis, Category
from ..models.models import ANALYSE, REWRITE, Models
from ..proposer import NoKernelError, RunEndedError, TurnContext
from ..turn import Attempt
from .adapter import KernelAdapter
from .asking import asking
from .inputs import DETAILS, Detail, analysis_inputs, repair_inputs, rewrite_inputs
from .reply import kernel_of, laid_out
from .retrieval import question, relevant, technique_of
from .signatures import KernelProgram, Suggestion
from .toolbox import Toolbox, ToolFailedError

SkippedRules = Callable[[Kernel, Sequence[str]], Sequence[SkippedRule]]
"""Returns the rules that make no change of a kernel, those for the first of the bottlenecks first."""
Ask = Callable[[KernelProgram, Detail], dspy.Prediction]
FINISHED = 0.8
"""Fraction of the roofline above which an analysis may suggest nothing, and a turn proposes nothing."""
NOT_SUBMITTED = "ReActV2 failed to produce final outputs"
"""Prefix of DSPy's error for this; it has no exception type."""


def no_rules(kernel: Kernel, categories: Sequence[str]) -> Sequence[SkippedRule]:
    """Apply no rules, so that none is skipped."""
    return ()


class ModelProposer:
    """Requests an analysis of each candidate once, then a kernel per lane.

    `state` is a better program, saved by `agent compile`; `examples` are shown to the model, `rag_k` of them; so are
    the rules that make no change of a kernel, from `skipped_rules`.
    """

    def __init__(
        self,
        models: Models,
        emit: Emit,
        retriever: Retriever | None = None,
        rag_k: int = 3,
        state: Mapping[str, Any] | None = None,
        skipped_rules: SkippedRules = no_rules,
    ) -> None:
        self._models = models
        self._emit = emit
        self._retriever = retriever
        self._rag_k = rag_k
        self._state = state
        self._skipped_rules = skipped_rules
        self._lock = threading.Lock()
        self._analyses: dict[tuple[int, str], Future[Analysis]] = {}

    def analyse(self, context: TurnContext) -> Analysis:
        """Return the model's analysis of the bottleneck; one exchange for all lanes that expand the same candidate.

        The first of these lanes makes the request, whichever thread runs first, so that a resumed run finds it there.
        """
        key = (context.lane.number, context.candidate.kernel.digest)
        with self._lock:
            future = self._analyses.setdefault(key, Future())
        if context.variant == 0:
            try:
                future.set_result(self._analysis(context))
            except BaseException as error:
                future.set_exception(error)
        return future.result()

    def propose(self, context: TurnContext, failed: Sequence[Attempt] = ()) -> Proposal | None:
        """Return a kernel that the model submits after using its tools; None if its analysis suggests nothing."""
        if not context.analysis.suggestions:
            return None
        context = self._with_rules(context)
        toolbox = Toolbox(context, self._retriever, lambda call: self._emit(ToolUsed(context.lane.name, call)))

        def ask(program: KernelProgram, detail: Detail) -> dspy.Prediction:
            # A shorter prompt begins a new conversation: the old one would still contain the long prompt.
            history = dspy.History(messages=[])
            if failed:
                agent, inputs = program.repair, repair_inputs(context, detail, failed)
            else:
                agent, inputs = program.rewrite, rewrite_inputs(context, detail, self._examples(context))
            try:
                return agent(history=history, **inputs)
            except ValueError as error:
                if type(error) is ValueError and str(error).startswith(NOT_SUBMITTED):
                    raise NoKernelError("nothing was submitted; call submit with the kernel") from None
                raise

        try:
            prediction = self._ask(context, REWRITE, ask, toolbox)
        except dspy.AdapterParseError as error:
            raise _no_kernel(error, context) from None
        except ToolFailedError as broke:
            raise broke.why from None
        before = context.candidate.kernel
        kernel = kernel_of(str(prediction.kernel or ""), context.problem, before.language, before.target)
        return Proposal(
            kernel=laid_out(kernel),
            strategy=" ".join(str(prediction.strategy or _technique(context)).split())[:60],
            category=context.analysis.category,
            rationale=" ".join(str(prediction.rationale or "").split()),
        )

    def _analysis(self, context: TurnContext) -> Analysis:
        metrics, context = context.analysis, self._with_rules(context)
        try:
            prediction = self._ask(
                context, ANALYSE, lambda program, detail: program.analyse(**analysis_inputs(context, detail))
            )
            suggestions = tuple(_idea(Suggestion.model_validate(suggestion)) for suggestion in prediction.suggestions)
            evidence = tuple(str(line) for line in prediction.evidence)
            # Near the roofline nothing may be left to gain. Otherwise an empty list is a mistake.
            finished = metrics.floor_ms >= FINISHED * metrics.latency_ms
            return dataclasses.replace(
                metrics,
                category=_category(prediction.category),
                evidence=evidence or metrics.evidence,
                suggestions=suggestions if suggestions or finished else metrics.suggestions,
            )
        except (dspy.AdapterParseError, ValidationError, ValueError) as error:
            self._emit(
                ProposalFailed(
                    context.lane.name, f"the analysis cannot be read ({_why(error)}); the metrics are used instead"
                )
            )
            return metrics

    def _ask(self, context: TurnContext, purpose: str, ask: Ask, toolbox: Toolbox | None = None) -> dspy.Prediction:
        """Run one part of the program; again with a shorter prompt when it was too long."""
        kernel = context.candidate.kernel
        program = KernelProgram(kernel.language, kernel.target, toolbox)
        if self._state is not None:
            program.load_state(dict(self._state))
        lm = self._models.lm(purpose, context.lane.name)
        with dspy.context(lm=lm, adapter=KernelAdapter(native=lm.supports_function_calling)):
            for detail in DETAILS:
                try:
                    with asking(self._models):
                        return ask(program, detail)
                except dspy.ContextWindowExceededError as error:
                    if detail is DETAILS[-1]:
                        raise RunEndedError(self._models.explain(error)) from None
                    self._emit(
                        ProposalFailed(context.lane.name, "the prompt was too long: asking again with less in it")
                    )
        raise AssertionError("the last detail returns or raises")

    def _with_rules(self, context: TurnContext) -> TurnContext:
        categories = dict.fromkeys([context.analysis.category, *context.analysis.ranking])
        return dataclasses.replace(
            context, skipped_rules=self._skipped_rules(context.candidate.kernel, list(categories))
        )

    def _examples(self, context: TurnContext) -> Callable[[str, int], str]:
        """Return a function that finds examples for a suggestion, up to a number of tokens."""

        def found(suggestion: str, tokens: int) -> str:
            if self._retriever is None or not self._rag_k or not tokens:
                return ""
            query = question(context, technique_of(suggestion))
            return within(relevant(self._retriever.search(query, self._rag_k), query), tokens)

        return found


def _technique(context: TurnContext) -> str:
    """Name a kernel that came without a strategy after the suggestion that it followed."""
    suggestions, variant = context.analysis.suggestions, context.variant
    return technique_of(suggestions[variant]) if variant < len(suggestions) else "rewrite"


def _category(text: str) -> Category:
    """Return the named category; models write 'Memory-bound' and '**memory**', too."""
    named = [category for category in Category if category in text.lower()]
    if len(named) != 1:
        raise ValueError(f"{' '.join(text.split())[:60]!r} is not a category")
    return named[0]


def _idea(suggestion: Suggestion) -> str:
    gain = f" (expected {suggestion.expected_gain:g}x)" if suggestion.expected_gain is not None else ""
    technique = suggestion.technique.replace(": ", ", ")  # the first colon ends it, see `technique_of`
    return f"{technique}: {suggestion.where}; {suggestion.why}{gain}"


def _no_kernel(error: dspy.AdapterParseError, context: TurnContext) -> NoKernelError:
    """Return why no kernel could be taken from a reply that DSPy could not parse."""
    before = context.candidate.kernel
    try:
        kernel_of(error.lm_response or "", context.problem, before.language, before.target)
    except NoKernelError as why:
        return why
    return NoKernelError(f"the reply could not be read ({_why(error)}); answer with a call of submit")


def _why(error: Exception) -> str:
    """Return the reason of an error in one line; of a reply, the missing fields."""
    if isinstance(error, dspy.AdapterParseError) and error.signature is not None:
        found = error.parsed_result or {}
        if missing := [name for name in error.signature.output_fields if name not in found]:
            return f"no {', '.join(missing)} in the reply"
    return first_line(error, 200)
