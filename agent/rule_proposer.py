"""The built-in proposer: rewrite rules, then a search of the parameters; needs no language model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

import black
import libcst as cst
from black.parsing import InvalidInput

from ..core import Kernel, Proposal, PythonKernel, SearchSpace
from ..core.space_inference import named_sizes, parameter_values
from .analysis import Analysis, Category
from .proposer import TurnContext
from .rules import RULES, Machine, Rule
from .turn import Attempt, Turn

TUNE = "tune-parameters"
LINE_LENGTH = 120


class RuleProposer:
    """Applies the first rule that fits the bottleneck, one per turn, and then searches all parameters.

    Rules for the kind of work that bounds the kernel come first, the others after the search. A rule that did not
    help is not tried again, and no rule twice on the same kernel. With a beam, further expansions of a kernel take
    the next rules. Parameters that rules introduced stay in the search. Decisions depend only on the arguments, so a
    resumed run takes the same turns.
    """

    def __init__(self, machine: Machine, rules: Sequence[Rule] = RULES) -> None:
        self._machine = machine
        self._rules = rules

    def analyse(self, context: TurnContext) -> Analysis:
        """Derive the bottleneck from the metrics."""
        return context.analysis

    def propose(self, context: TurnContext, failed: Sequence[Attempt] = ()) -> Proposal | None:
        """Return the next step for the candidate, or None when nothing is left. Failures are not repaired."""
        if failed:
            return None
        kernel, analysis, turns = context.candidate.kernel, context.analysis, context.turns
        done = {turn.strategy for turn in turns if not turn.helped or turn.before.kernel.digest == kernel.digest}
        rules = [rule for rule in self._rules if rule.name not in done]
        rules.sort(key=lambda rule: analysis.ranking.index(Category(rule.category)))
        suitable = [rule for rule in rules if rule.work in (analysis.work, "both")]
        others = [rule for rule in rules if rule not in suitable]
        tuning = _tuning(kernel, analysis, turns, named_sizes(context.problem, context.profile))
        ideas = chain(self._rewritings(suitable, kernel), [tuning] if tuning else [], self._rewritings(others, kernel))
        return next(islice(ideas, context.variant, None), None)

    def _rewritings(self, rules: Sequence[Rule], kernel: Kernel) -> Iterator[Proposal]:
        if not isinstance(kernel, PythonKernel):
            return  # rules rewrite Python
        for rule in rules:
            try:
                rewritten = rule.apply(kernel, self._machine)
                after = formatted(rewritten.kernel) if rewritten else kernel
            except (cst.ParserSyntaxError, cst.CSTValidationError, InvalidInput, AssertionError):
                continue  # a form of source that the rule does not support
            if rewritten is not None and rewritten.kernel.source != kernel.source:
                yield Proposal(
                    kernel=after,
                    strategy=rule.name,
                    category=rule.category,
                    rationale=f"{rewritten.did}: {rule.why}",
                    space=rewritten.space,
                )


def _tuning(kernel: Kernel, analysis: Analysis, turns: Sequence[Turn], sizes: Mapping[str, int]) -> Proposal | None:
    """Propose a search of the parameters, unless a search started at this kernel or ended with it."""
    for turn in turns:
        ends = [turn.before, *([turn.found] if turn.found and not turn.helped else [])]
        if turn.strategy == TUNE and kernel.digest in {end.kernel.digest for end in ends}:
            return None
    space = joint_space(kernel, _lineage(kernel, turns), sizes)
    if space is None:
        return None
    return Proposal(
        kernel=kernel,
        strategy=TUNE,
        category=analysis.category,
        rationale=f"search {', '.join(space.names)} (up to {space.cardinality} configs) from the best so far",
        space=space,
        first=tuple(kernel.configs_in(space)),
    )


def _lineage(kernel: Kernel, turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns that produced the kernel, oldest first: with a beam, others belong to other kernels."""
    makers: dict[str, Turn] = {}
    known = {turn.before.kernel.digest for turn in turns[:1]}
    for turn in turns:
        if turn.found is not None and turn.found.kernel.digest not in known:
            known.add(turn.found.kernel.digest)
            makers[turn.found.kernel.digest] = turn
    line: list[Turn] = []
    digest = kernel.digest
    while digest in makers:
        line.insert(0, makers[digest])
        digest = makers[digest].before.kernel.digest
    return line


def joint_space(kernel: Kernel, lineage: Sequence[Turn], sizes: Mapping[str, int]) -> SearchSpace | None:
    """Return the parameters that the kernel declares or its constants suggest, and those of its lineage.

    Constraints may name `sizes` of the problem.
    """
    declared, present = kernel.declared_values, kernel.config
    values = dict(declared)
    suggested = {name: choices for name, choices in parameter_values(kernel).items() if name not in declared}
    constraints = list(kernel.declared_constraints) if declared else []
    for turn in lineage:
        if turn.proposal and turn.proposal.space:
            for parameter in turn.proposal.space.parameters:
                if len(parameter.values) == 1 and parameter.name in suggested:
                    continue  # it was fixed at this value; now it may change
                if parameter.name in present and present[parameter.name] in parameter.values:
                    values.setdefault(parameter.name, parameter.values)
            constraints += [text for text in turn.proposal.space.constraints if text not in constraints]
    values = {**values, **{name: choices for name, choices in suggested.items() if name not in values}}
    return kernel.space(values, constraints, sizes) if values else None


def formatted(kernel: PythonKernel) -> PythonKernel:
    """Return the kernel with its source formatted by black."""
    return replace(kernel, source=black.format_str(kernel.source, mode=black.Mode(line_length=LINE_LENGTH)))
