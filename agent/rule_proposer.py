"""The built-in proposer: rewrite rules, then a search of the parameters; needs no language model."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from ..core import Kernel, Proposal, SearchSpace, SpaceError
from ..core.expressions import Expression
from ..core.space_inference import named_sizes, parameter_values
from ..core.turn_record import SkippedRule
from .applied_rules import AppliedRules
from .bottleneck import Analysis, Category
from .priors import MIN_GAIN, NEVER_HELPED, UNKNOWN, Prior, expected, kinds_of, unknown
from .proposer import Rewrites, TurnContext
from .rules import Machine, Rule
from .turn import Attempt, Turn

TUNE = "tune-parameters"
MOST = 16
"""Rules in one turn."""
JOINER = " + "
"""Between the names of rules that were applied in sequence."""
ALL_TOGETHER = 5
"""Maximum number of rules applied at once because earlier runs gained by them."""
PLACE = 0.8
"""Factor on a rule's expected gain for each category that is ranked before its own."""
OTHER_WORK = 0.5
"""Factor if the rule is for the other kind of work."""


class RuleProposer:
    """Tries all rules that apply to a kernel in one turn, then searches all parameters.

    The rules that are expected to gain most come first: by the bottleneck, by what they gained on this kind of kernel
    before (`prior`), and by this run's own turns. The first turn begins with those that gained before, in sequence.
    Those that never helped on this kind come last, after the search. No rule is tried twice on the same kernel. With a
    beam, further expansions of a kernel take what comes next. Parameters that rules introduced stay in the search.
    Decisions depend only on the arguments, so a resumed run takes the same turns. Without `rules` all are tried that
    are known: this package's, and those of others.
    """

    def __init__(self, machine: Machine, rules: Sequence[Rule] | None = None, prior: Prior = unknown) -> None:
        self._applied = AppliedRules(machine, rules)
        self._rules = self._applied.rules
        self._prior = prior
        self._preparing: threading.Thread | None = None

    def prepare(self, kernel: Kernel) -> None:
        """Begin to apply each rule to a kernel, for `propose`; returns at once."""
        self._preparing = threading.Thread(target=self._prepare, args=(kernel,), name="rules", daemon=True)
        self._preparing.start()

    def _prepare(self, kernel: Kernel) -> None:
        self._applied.skipped(kernel)

    def analyse(self, context: TurnContext) -> Analysis:
        """Derive the bottleneck from the metrics."""
        return context.analysis

    def propose(self, context: TurnContext, failed: Sequence[Attempt] = ()) -> Proposal | Rewrites | None:
        """Return the next changes of the candidate; None if nothing is left. Failures are not repaired."""
        if failed:
            return None
        if self._preparing is not None:
            self._preparing.join()
        return next(islice(self._ideas(context), context.variant, None), None)

    def _ideas(self, context: TurnContext) -> Iterator[Proposal | Rewrites]:
        kernel, analysis, turns = context.candidate.kernel, context.analysis, context.turns
        sizes = named_sizes(context.problem, context.profile)
        spaces = _spaces(_lineage(kernel, turns))
        proposals = []
        done = _tried_on(kernel, turns)
        kinds = kinds_of(kernel.backend, analysis.work, context.profile.operators, context.problem.id)
        for rule in self._ordered(analysis, kinds, turns):
            if rule.name not in done and (proposal := self._rewriting([rule], kernel, spaces, sizes)) is not None:
                proposals.append(proposal)

        def combine(names: Sequence[str]) -> Proposal | None:
            rules = dict.fromkeys(name for strategy in names for name in strategy.split(JOINER))
            return self._rewriting([self._named(name) for name in rules], kernel, spaces, sizes)

        hopeless = self._hopeless(kinds, turns)
        if not turns and (known := self._known(kinds, proposals, combine, hopeless)):
            yield Rewrites(known[:MOST], combine)
        self._tell_skipped(context)
        first = [item for item in proposals if item.strategy not in hopeless]
        rest = [*first[MOST:], *(item for item in proposals if item.strategy in hopeless)]
        if first:
            yield Rewrites(tuple(first[:MOST]), combine)
        if (tuning := _tuning(kernel, analysis, turns, joint_space(kernel, spaces, sizes))) is not None:
            yield tuning
        for begin in range(0, len(rest), MOST):
            yield Rewrites(tuple(rest[begin : begin + MOST]), combine)

    def _tell_skipped(self, context: TurnContext) -> None:
        """Tell the lane which rules made no change of its kernel, unless an earlier turn of that kernel did, and which
        combinations failed since the last turn. Rules for other languages are left out.
        """
        kernel, lane = context.candidate.kernel, context.lane
        if context.variant == 0 and not any(item.before.kernel.digest == kernel.digest for item in context.turns):
            skipped = self._applied.skipped(kernel)
            lane.skipped_rules += [item for item in skipped if item not in lane.skipped_rules]
        lane.skipped_rules += self._applied.failed_together
        self._applied.failed_together = []

    def _known(
        self,
        kinds: Sequence[str],
        proposals: Sequence[Proposal],
        combine: Callable[[Sequence[str]], Proposal | None],
        hopeless: set[str],
    ) -> tuple[Proposal, ...]:
        """Return what gained before on this kind of kernel in sequence, the beginnings of that sequence, and the whole
        with each of the other rules: what earlier runs found one by one is where this one begins.

        Empty unless at least two rules gained.
        """
        gains = {proposal.strategy: self._prior(proposal.strategy, kinds) for proposal in proposals}
        names: list[str] = []
        found: list[Proposal] = []
        for name in sorted(gains, key=lambda rule: -gains[rule]):
            if gains[name] > UNKNOWN and len(names) < ALL_TOGETHER and (more := combine([*names, name])) is not None:
                names.append(name)
                found.insert(0, more)
        if len(found) < 2:
            return ()
        others = (combine([*names, name]) for name in gains if name not in names and name not in hopeless)
        return (*found, *(item for item in others if item is not None))

    def _ordered(self, analysis: Analysis, kinds: Sequence[str], turns: Sequence[Turn]) -> list[Rule]:
        """Sort rules by expected gain, the largest first. Rules for the other kind of work count less."""

        def promise(rule: Rule) -> float:
            place = analysis.ranking.index(Category(rule.category))
            share = PLACE**place * (1.0 if rule.work in (analysis.work, "both") else OTHER_WORK)
            return share * math.log(max(1.0, self._expected(rule.name, kinds, turns)))

        return sorted(self._rules, key=promise, reverse=True)

    def _expected(self, rule: str, kinds: Sequence[str], turns: Sequence[Turn]) -> float:
        """Return the expected gain of a rule, from the prior and its gains in this run."""
        gains = [
            item.gain or 0.0
            for turn in turns
            for item in turn.tried
            if item.proposal is not None and item.proposal.strategy == rule
        ]
        before = self._prior(rule, kinds)
        return max(before, expected(gains)) if gains and max(gains) > MIN_GAIN else before

    def _hopeless(self, kinds: Sequence[str], turns: Sequence[Turn]) -> set[str]:
        """Return the rules that never helped on this kind of kernel."""
        return {rule.name for rule in self._rules if self._expected(rule.name, kinds, turns) <= NEVER_HELPED}

    def _named(self, name: str) -> Rule:
        return next(rule for rule in self._rules if rule.name == name)

    def _rewriting(
        self, rules: Sequence[Rule], kernel: Kernel, spaces: Sequence[SearchSpace], sizes: Mapping[str, int]
    ) -> Proposal | None:
        """Return the kernel after the rules in sequence; None where one of them does not apply, or where what they
        demand of the parameters leaves no config.
        """
        found = self._applied.apply(rules, kernel)
        if not found or isinstance(found, SkippedRule):
            return None
        after = found[-1].kernel
        try:
            space = joint_space(after, [*spaces, *(item.space for item in found if item.space is not None)], sizes)
        except SpaceError:
            return None
        return Proposal(
            kernel=after,
            strategy=JOINER.join(rule.name for rule in rules),
            category=rules[0].category,
            rationale="; ".join(
                f"{rewritten.summary}: {rule.why}" for rewritten, rule in zip(found, rules, strict=True)
            ),
            space=space,
        )


def _tried_on(kernel: Kernel, turns: Sequence[Turn]) -> set[str]:
    """Return the rules that were tried on this kernel."""
    return {
        item.proposal.strategy
        for turn in turns
        if turn.before.kernel.digest == kernel.digest
        for item in turn.tried
        if item.proposal is not None
    }


def _tuning(kernel: Kernel, analysis: Analysis, turns: Sequence[Turn], space: SearchSpace | None) -> Proposal | None:
    """Propose a search of the parameters, unless a search started at this kernel or ended with it."""
    if space is None or space.cardinality < 2:
        return None
    for turn in turns:
        searched = turn.proposal is not None and turn.proposal.space is not None
        ends = [turn.found] if turn.found is not None else []
        if turn.strategy == TUNE:
            ends.append(turn.before)
        if searched and kernel.digest in {end.kernel.digest for end in ends}:
            return None
    return Proposal(
        kernel=kernel,
        strategy=TUNE,
        category=analysis.category,
        rationale=f"search {', '.join(space.names)} (up to {space.cardinality} configs) from the best so far",
        space=space,
        first=tuple(kernel.configs_in(space)),
    )


def _spaces(lineage: Sequence[Turn]) -> list[SearchSpace]:
    """Return the spaces of the changes that produced a kernel."""
    return [turn.proposal.space for turn in lineage if turn.proposal is not None and turn.proposal.space is not None]


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


def joint_space(kernel: Kernel, brought: Sequence[SearchSpace], sizes: Mapping[str, int]) -> SearchSpace | None:
    """Return the parameters that the kernel declares or its constants suggest, and those that its changes brought.

    Constraints may name `sizes` of the problem.
    """
    declared, present = kernel.declared_values, kernel.config
    values = dict(declared)
    suggested = {name: choices for name, choices in parameter_values(kernel).items() if name not in declared}
    constraints = list(kernel.declared_constraints) if declared else []
    for space in brought:
        for parameter in space.parameters:
            if len(parameter.values) == 1 and parameter.name in suggested:
                continue  # it was fixed at this value; now it may change
            if parameter.name in present and present[parameter.name] in parameter.values:
                values.setdefault(parameter.name, parameter.values)
        gone = {*space.names} - {*present}  # later changes took them out of the file
        kept = (constraint for constraint in space.constraints if not Expression(constraint).names & gone)
        constraints += [item for item in kept if item not in constraints]
    values = {**values, **{name: choices for name, choices in suggested.items() if name not in values}}
    return kernel.space(values, constraints, sizes) if values else None
