"""Launch plans in a verification: recorded from the candidate's calls, replayed and compared with the reference."""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...core import Rejection, Replay, Status
from ..candidate.call_parts import CallParts
from ..candidate.packing_timer import PackingTimer
from ..candidate.replay_timer import ReplayTimer
from ..candidate.replayer import Replayer
from ..candidate.responses import BatchOutputs
from ..candidate.verified import (
    SIDE_EFFECTS,
    WRITES_WEIGHTS,
    CandidateError,
    CheckPlan,
    Comparisons,
    HandedPlan,
    RecordedPlan,
    VerifiedConfig,
    distribution_label,
    rejected,
    trivial_output_in,
)
from ..correctness.distributions import OTHER_WEIGHTS
from ..guards.measured_share import MeasuredShare, forbidden_step, share_violation
from ..guards.own_kernels import proof_violation
from ..guards.read_integers import UnboundedPlansError, integers_that_differ
from ..guards.torch_share import Operator, said_of_start
from ..profiling.operator_kinds import COMPUTE
from ..replay.values import UnplannableCallError
from .evaluation_context import EvaluationContext

VARIANTS = 64
"""Number of variants of the problem's own inputs for checks; timed calls begin with the same variants."""


_NUMBERS = itertools.count(1 << 32)
"""Numbers of the plans of several sets of integers; the plan for all has that of its config."""


class LaunchPlans:
    """The steps of a verification that concern launch plans. Each may raise `CandidateError`."""

    def __init__(self, pair: EvaluationContext, replayer: Replayer) -> None:
        self._pair = pair
        self._replayer = replayer

    def record(self, checked: VerifiedConfig) -> Sequence[RecordedPlan]:
        """Record the launch plan twice, with other weights and inputs; none, with the reason noted, without a plan.

        Of a user's function whose plans differ by integers of the inputs, each of several sets of integers has its own.
        Raises `CandidateError` where plans differ otherwise: then what the kernel does depends on more than its sizes.
        """
        pair = self._pair
        with pair.stage("recording"):
            try:
                first, second = self._recorded(checked), self._recorded(checked)
                pair.release()
                if first.reads and pair.reference_client.problem.package is not None:
                    return self._by_integers(checked)
                if (difference := first.plan.difference(second.plan)) is None:
                    return [second]
                if pair.reference_client.problem.package is None:
                    raise _changing(f"two calls at the same sizes launch differently: {difference}")
                return self._by_integers(checked)
            except UnplannableCallError as reason:
                checked.replay = Replay(replayed=False, reason=str(reason))
                return []

    def record_again(self, checked: VerifiedConfig) -> Sequence[RecordedPlan]:
        """Record a plan for each set of integers where that for all was recorded, and computes something else: its
        integers may have been alike by chance. None where nothing depends on integers, or for other than functions.
        """
        pair = self._pair
        if pair.reference_client.problem.package is None:
            return []
        with pair.stage("recording"):
            try:
                recorded = self._by_integers(checked)
            except UnplannableCallError as reason:
                checked.replay = Replay(replayed=False, reason=str(reason))
                return []
        return recorded if checked.depends_on else []

    def _recorded(self, checked: VerifiedConfig, integers: int | None = None) -> RecordedPlan:
        """Record the plan of a call on new weights and inputs, perhaps with the integers of another seed.

        Raises `UnplannableCallError` where there is none.
        """
        pair, seed = self._pair, self._pair.draw()
        found = pair.client.record(pair.reference_client, checked, seed, integers)
        checked.weights = seed  # those that it has now
        if isinstance(found, str):
            raise UnplannableCallError(found)
        return found

    def _by_integers(self, checked: VerifiedConfig) -> Sequence[RecordedPlan]:
        """Record a plan for each set of integers. Raises `UnplannableCallError` where launches could carry results.

        Each is replayed on other floating-point numbers than it was recorded on.
        """
        pair = self._pair
        client, sets = pair.reference_client, pair.reference_client.integer_sets(pair.draw)
        again, *recorded = (self._recorded(checked, integers) for integers in (sets[0], *sets))
        if (difference := again.plan.difference(recorded[0].plan)) is not None:
            raise _changing(f"two calls on the same integers launch differently: {difference}")
        pair.release()
        alike = _are_alike([again, *recorded])
        if alike and not again.reads:
            return [replace(recorded[-1], integers=item.integers) for item in recorded]
        found = client.call("integers", seeds=sets, written=client.effects["changed"])
        if alike:
            if found["fixed"]:
                named = " and ".join(found["fixed"])
                checked.depends_on = f"the launches may depend on the integers of {named}, which are always the same"
            return [replace(recorded[-1], integers=item.integers) for item in recorded]
        read = f"integers read from {' and '.join(found['names'])}"
        try:
            count = integers_that_differ([item.plan for item in recorded])
        except UnboundedPlansError as error:
            raise UnplannableCallError(f"the launches depend on {read}: {error}") from None
        if found["decided"] >= 0:
            what = f"which decide the result {found['decided']} alone, so launches could carry it"
            raise UnplannableCallError(f"the launches depend on {read}, {what}")
        checked.depends_on = f"the launches depend on {count} {read}"
        return recorded

    def load(self, checked: VerifiedConfig, recorded: Sequence[RecordedPlan], plan: CheckPlan) -> None:
        """Hand plans to a process that replays them on fresh weights and inputs; the reference worker compares.

        Others may measure while they are compiled: that process does nothing else meanwhile.
        """
        pair = self._pair
        alike = _are_alike(recorded)
        numbers = [checked.serial if alike else next(_NUMBERS) for _ in recorded]
        checked.plans = tuple(HandedPlan(number, item.integers) for number, item in zip(numbers, recorded, strict=True))
        codes = [code for item in recorded for code in item.plan.codes.values()]
        signatures = {code.parameters for code in codes if code.kind in ("ptx", "amdgcn")}
        with pair.access.released(), pair.stage("plan compiling"), _of(checked):
            if signatures:
                language = pair.client.kernel.language.id
                pair.reference_client.call("build_helpers", language=language, signatures=sorted(signatures))
            reasons = map(self._replayer.load, dict.fromkeys(numbers), recorded)
            reason = next(filter(None, reasons), None)
        with pair.stage("replay check"), _of(checked):
            if reason is None:
                reason = self._differs(checked, plan)
            shown = recorded[0].plan
            steps = tuple(shown.all_lines())
            checked.replay = Replay(
                replayed=reason is None, reason=reason or "", steps=steps, depends_on=checked.depends_on
            )
            checked.packs = shown.packing is not None
            if reason is None:
                self._prove_all(checked, recorded[:1] if alike else recorded)

    def time_packing(self, checked: VerifiedConfig) -> None:
        """Time what packs the weights of a replayed plan, if anything does."""
        if not (checked.replayed and checked.packs):
            return
        pair = self._pair
        timer = PackingTimer(self._replayer, pair.reference_client, pair.on_cpu)
        with pair.stage("packing"), _of(checked):
            checked.packing = timer.measured(checked)

    def timer(self, checked: VerifiedConfig) -> ReplayTimer:
        """Return the timer of a plan that was replayed; it compares results of what it times."""
        pair = self._pair
        seeds, graph = pair.timing_seeds(), pair.settings.graph
        return ReplayTimer(self._replayer, pair.reference_client, checked, seeds, graph, pair.on_cpu, pair.draw)

    def _differs(self, checked: VerifiedConfig, plan: CheckPlan) -> str | None:
        """Return why a plan does not do what the reference does; raises `CandidateError` for side effects."""
        first, *others = checked.plans
        for handed in others:
            # On all distributions, too, where it may launch kernels of its own.
            distributions = plan.distributions if handed.number != first.number else ()
            again = CheckPlan((self._pair.draw(),), distributions, plan.thorough, precise=False)
            if (reason := self._plan_differs(checked, handed, again)) is not None:
                return reason
        return self._plan_differs(checked, first, plan)

    def _plan_differs(self, checked: VerifiedConfig, handed: HandedPlan, plan: CheckPlan) -> str | None:
        with self._replayer.holding(self._pair.reference_client, handed):
            return self._checked(checked, handed, plan)

    def _checked(self, checked: VerifiedConfig, handed: HandedPlan, plan: CheckPlan) -> str | None:
        comparisons = Comparisons(plan.seeds)
        first, *others = plan.seeds
        checks = [(first, None), *((seed, None) for seed in others), *((first, name) for name in plan.distributions)]
        for number, (seed, distribution) in enumerate(checks):
            self._pair.access.yield_to_waiter()
            reference_client = self._pair.reference_client
            own = distribution in (None, OTHER_WEIGHTS)
            precise = number == 0 and plan.precise
            reason, verdict, outputs = self._replayer.check(
                reference_client, handed.number, seed, distribution, self._variant() if own else 0, precise
            )
            if reason is not None:
                return reason
            if verdict["status"] != Status.OK:
                told = f"{distribution_label(distribution)}: " if distribution else ""
                return f"its launches alone do not compute what its call returns: {told}{verdict['message']}"
            if (trivial := trivial_output_in(verdict)) is not None:
                raise rejected(trivial)
            assert outputs is not None
            self._require_no_effects(outputs)
            comparisons.add(verdict, distribution)
            comparisons.deterministic = verdict.get("deterministic", comparisons.deterministic)
        correctness = comparisons.summary(passed=True)
        assert correctness is not None
        checked.correctness, checked.weights = correctness, first
        return None

    def _variant(self) -> int:
        """Return the number of a variant of the problem's own inputs: the one that is drawn, or one of those on which
        most timed calls are."""
        return self._pair.draw() % VARIANTS * (self._pair.draw() % 2)

    def _require_no_effects(self, outputs: BatchOutputs) -> None:
        """Raise `CandidateError` for a replay that was correct and broke a rule."""
        reference_client = self._pair.reference_client
        for name, (rule, what, why) in SIDE_EFFECTS.items():
            if affected := reference_client.side_effects(name, getattr(outputs, name)):
                raise rejected(Rejection(rule=rule, where=f"{what} {affected[0]}", why=why))
        if written := sorted(set(outputs.weights) - reference_client.written_weights):
            raise rejected(Rejection(rule="weights-changed", where=written[0], why=WRITES_WEIGHTS))
        if outputs.kept:
            why = "returns memory that it keeps from call to call; give each call an output of its own"
            raise rejected(Rejection(rule="output-reused", where="the output", why=why))

    def _prove_all(self, checked: VerifiedConfig, recorded: Sequence[RecordedPlan]) -> None:
        """Check that each plan launches kernels, and that torch takes little of its time; measure the host's work."""
        host_ms, launches = [], []
        for handed, item in zip(checked.plans, recorded, strict=False):
            launches.append(dict(Counter(item.plan.codes[launch.code].name for launch in item.plan.launches())))
            with self._replayer.holding(self._pair.reference_client, handed):
                host_ms.append(self._proven(checked, handed, launches[-1]))
        checked.host_ms, checked.launches = statistics.fmean(host_ms), launches[0]

    def _proven(self, checked: VerifiedConfig, handed: HandedPlan, launches: Mapping[str, int]) -> float:
        """Return the host's milliseconds of a call; raises `CandidateError` for a plan that breaks a rule."""
        pair, allow = self._pair, self._pair.allow_torch
        self._replayer.prepare_one(pair.reference_client, handed.number, checked.weights)
        steps = self._replayer.hold_steps()
        named = [step.short_name for step in steps if step.kind == COMPUTE]
        checked.library = tuple(dict.fromkeys([*checked.library, *named]))
        pair.require_launches(launches)
        broken = proof_violation(None, launches, allow) or forbidden_step(steps, allow)
        if broken is None:
            reference = [Operator.model_validate(item) for item in pair.reference_client.counted["details"]]
            pair.client.draw_host(checked, handed.integers)
            integers = None if handed.integers is None else pair.draw
            parts = CallParts(pair.client, self._replayer, pair.reference_client, pair.on_cpu, integers)
            judge = partial(self._share_violation, checked, reference, handed.integers)
            host_ms, broken = parts.measure(steps, judge)
            pair.release()
        if broken is not None:
            raise rejected(broken)
        return host_ms

    def _share_violation(
        self, checked: VerifiedConfig, reference: Sequence[Operator], integers: int | None, share: MeasuredShare
    ) -> Rejection | None:
        """Judge torch's share of a call; without what torch does in the user's function as it stands, where that alone
        would be too much."""
        allow = self._pair.allow_torch
        broken = share_violation(share, reference, allow)
        if broken is None:
            return None
        counted = self._replayer.count_steps()
        families = self._pair.reference_client.torch_of_start(counted, checked.weights, integers)
        rest = share.without(families)
        if (beyond := share_violation(rest, reference, allow)) is None:
            taken = (sum(share.steps_ms) - sum(rest.steps_ms)) / share.call_ms
            remark = {"torch_as_start": said_of_start(counted, families, f", {taken:.0%}")}
            checked.correctness = checked.correctness.model_copy(update=remark)
        return beyond


def _are_alike(recorded: Sequence[RecordedPlan]) -> bool:
    return all(item.plan.difference(recorded[0].plan) is None for item in recorded)


def _changing(why: str) -> CandidateError:
    return rejected(Rejection(rule="changing-plan", where="forward", why=why))


@contextlib.contextmanager
def _of(checked: VerifiedConfig) -> Iterator[None]:
    """Add the config to a failure, and what was found before."""
    try:
        yield
    except CandidateError as failure:
        failure.config = checked.config
        failure.correctness = failure.correctness or checked.correctness
        raise
