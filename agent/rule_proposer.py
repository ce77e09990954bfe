"""The built-in proposer: rewrite rules, then the parameters; no language model."""

from __future__ import annotations

from collections.abc import Sequence

import black
import libcst as cst
from black.parsing import InvalidInput

from ..core import Kernel, Parameter, Problem, Proposal, SearchSpace
from .analysis import Analysis, Category
from .rules import RULES, Machine, Rule
from .turn import Turn

TUNE = "tune-parameters"
LINE_LENGTH = 120


class RuleProposer:
    """Applies the first rule that fits the bottleneck, one per turn, and then searches all parameters.

    Rules for the kind of work that bounds the kernel come first, the others after the search. A rule that
    did not help is not tried again. Parameters that rules introduced stay in the search. What it decides
    depends on its arguments only, so a resumed run takes the same turns.
    """

    def __init__(self, machine: Machine, rules: Sequence[Rule] = RULES) -> None:
        self._machine = machine
        self._rules = rules

    def propose(self, problem: Problem, kernel: Kernel, analysis: Analysis, turns: Sequence[Turn]) -> Proposal | None:
        """What to try next on the best kernel so far, or None when nothing is left."""
        useless = {turn.proposal.strategy for turn in turns if not turn.improved}
        rules = [rule for rule in self._rules if rule.name not in useless]
        rules.sort(key=lambda rule: analysis.ranking.index(Category(rule.category)))
        suitable = [rule for rule in rules if rule.work in (analysis.work, "both")]
        others = [rule for rule in rules if rule not in suitable]
        return self._rewriting(suitable, kernel) or _tuning(kernel, analysis, turns) or self._rewriting(others, kernel)

    def _rewriting(self, rules: Sequence[Rule], kernel: Kernel) -> Proposal | None:
        for rule in rules:
            try:
                rewritten = rule.apply(kernel, self._machine)
                after = formatted(rewritten.kernel) if rewritten else kernel
            except (cst.ParserSyntaxError, cst.CSTValidationError, InvalidInput, AssertionError):
                continue  # source of a form that the rule did not foresee
            if rewritten is not None and rewritten.kernel.source != kernel.source:
                return Proposal(
                    kernel=after,
                    strategy=rule.name,
                    category=rule.category,
                    rationale=f"{rewritten.did}: {rule.why}",
                    space=rewritten.space,
                )
        return None


def _tuning(kernel: Kernel, analysis: Analysis, turns: Sequence[Turn]) -> Proposal | None:
    """Search the parameters, unless that has brought nothing since the kernel last changed."""
    latest = next((turn for turn in reversed(turns) if turn.improved or turn.proposal.strategy == TUNE), None)
    if latest is not None and latest.proposal.strategy == TUNE and not latest.improved:
        return None
    space = joint_space(kernel, turns)
    if space is None:
        return None
    return Proposal(
        kernel=kernel,
        strategy=TUNE,
        category=analysis.category,
        rationale=f"search {', '.join(space.names)} (up to {space.cardinality} configs) from the best so far",
        space=space,
    )


def joint_space(kernel: Kernel, turns: Sequence[Turn]) -> SearchSpace | None:
    """What the kernel declares, what helpful rules brought, and other constants that look like sizes."""
    declared = kernel.declared_space
    parameters = {p.name: p for p in declared.parameters} if declared else {}
    constraints = list(declared.constraints) if declared else []
    present = kernel.config
    for turn in turns:
        if turn.improved and turn.proposal.space:
            for parameter in turn.proposal.space.parameters:
                if len(parameter.values) == 1 and discover(parameter.name, present.get(parameter.name)):
                    continue  # it was held where it stood; now it may move
                if parameter.name in present and present[parameter.name] in parameter.values:
                    value = present[parameter.name]
                    parameters.setdefault(parameter.name, Parameter(parameter.name, parameter.values, value))
            constraints += [text for text in turn.proposal.space.constraints if text not in constraints]
    for name, value in present.items():
        if name not in parameters and (discovered := discover(name, value)):
            parameters[name] = discovered
    return SearchSpace(list(parameters.values()), constraints) if parameters else None


def discover(name: str, value: object) -> Parameter | None:
    """Values around a constant that looks like a size: a power of two, halved and doubled twice."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 8 or value & (value - 1):
        return None
    values = sorted({max(1, value >> shift) for shift in (2, 1, 0)} | {value << shift for shift in (1, 2)})
    return Parameter(name, values, value)


def formatted(kernel: Kernel) -> Kernel:
    """The kernel with its source laid out by black."""
    return Kernel(
        kernel.language,
        kernel.target,
        black.format_str(kernel.source, mode=black.Mode(line_length=LINE_LENGTH)),
        kernel.name,
    )
