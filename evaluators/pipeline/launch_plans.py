"""Launch plans in a verification: recorded from the candidate's calls, replayed and compared beside the reference."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ...core import Rejection, Replay, Status
from ..candidate.verified import (
    SIDE_EFFECTS,
    WRITES_WEIGHTS,
    CheckPlan,
    Comparisons,
    Failure,
    RecordedPlan,
    VerifiedConfig,
    rejected,
    told_of,
    trivial_output_in,
)
from ..guards.own_kernels import proof_violation
from ..guards.torch_share import Operator, torch_violation
from ..reference.client import ReplayFailed
from ..workers.channel import Message
from .pair import Pair


class LaunchPlans:
    """The steps of a verification that concern launch plans. Each may raise `Failure`."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._seconds = 2 * pair.settings.limits.call_s  # the reference runs too

    def record(self, checked: VerifiedConfig) -> RecordedPlan | None:
        """Record the launch plan twice, with other weights and inputs; None, with the reason noted, without a plan.

        Raises `Failure` where the two differ: then what the kernel does depends on more than its sizes.
        """
        pair = self._pair
        with pair.stage("recording"):
            seeds = pair.draw(), pair.draw()
            one, two = (pair.client.record(pair.reference_client, checked, seed) for seed in seeds)
            checked.weights = seeds[-1]  # those that it has now
            pair.release()
            if isinstance(one, str) or isinstance(two, str):
                checked.replay = Replay(replayed=False, reason=one if isinstance(one, str) else str(two))
                return None
            if (difference := one.plan.difference(two.plan)) is not None:
                why = f"two calls at the same sizes launch differently: {difference}"
                raise rejected(Rejection(rule="changing-plan", where="forward", why=why))
            return two

    def load(self, checked: VerifiedConfig, recorded: RecordedPlan, plan: CheckPlan) -> None:
        """Hand the plan to the reference worker, which replays it on fresh weights and inputs and compares.

        Others may measure while it is compiled: that process does nothing else meanwhile.
        """
        pair = self._pair
        with pair.access.released(), pair.stage("plan compiling"), _plan_at_fault(checked):
            reason = pair.reference_client.load_plan(checked.serial, recorded.plan, recorded.constants, recorded.path)
        with pair.stage("replay check"):
            if reason is None:
                reason = self._replayed(checked, "fit_plan")["reason"]
            if reason is None:
                reason = self._differs(checked, plan)
            checked.replay = Replay(replayed=reason is None, reason=reason or "", steps=tuple(recorded.plan.lines()))
            if reason is None:
                checked.launches = dict(Counter(recorded.plan.codes[one.code].name for one in recorded.plan.launches()))
                self._prove(checked)

    def timer(self, checked: VerifiedConfig) -> Callable[[int], Message]:
        """Return the timer of a plan that was replayed."""
        pair = self._pair
        timer = pair.reference_client.plan_timer(
            checked.serial, pair.timing_seeds(), pair.settings.graph, self._seconds
        )

        def take(samples: int) -> Message:
            with _plan_at_fault(checked):
                return timer(samples)

        return take

    def recheck(self, checked: VerifiedConfig) -> None:
        """Check that timed replays did the work too."""
        verdict = self._replayed(checked, "replay_recheck")
        if verdict["status"] != Status.OK:
            why = f"a timed replay gave something else than the reference: {verdict['message']}"
            raise rejected(Rejection(rule="wrong-when-timed", where="while it was timed", why=why))

    def _differs(self, checked: VerifiedConfig, plan: CheckPlan) -> str | None:
        """Return why the plan does not do what the reference does; raises `Failure` for side effects."""
        comparisons = Comparisons(plan.seeds)
        first, *others = plan.seeds
        checks = [(first, None), *((seed, None) for seed in others), *((first, name) for name in plan.distributions)]
        written = self._pair.reference_client.effects["changed"]
        for number, (seed, distribution) in enumerate(checks):
            self._pair.access.give_way()
            request = {"seed": seed, "distribution": distribution, "precise": number == 0, "written": written}
            verdict = self._replayed(checked, "replay", **request)
            if verdict["status"] != Status.OK:
                told = f"{told_of(distribution)}: " if distribution else ""
                return f"its launches alone do not compute what its call returns: {told}{verdict['message']}"
            self._require_no_effects(verdict)
            comparisons.add(verdict, distribution)
            comparisons.deterministic = verdict.get("deterministic", comparisons.deterministic)
        correctness = comparisons.summary(passed=True)
        assert correctness is not None
        checked.correctness, checked.weights = correctness, first
        return None

    def _require_no_effects(self, verdict: Message) -> None:
        """Raise `Failure` for a replay that was correct and broke a rule."""
        reference_client = self._pair.reference_client
        if (trivial := trivial_output_in(verdict)) is not None:
            raise rejected(trivial)
        for name, (rule, what, why) in SIDE_EFFECTS.items():
            if affected := sorted(set(verdict["effects"][name]) - set(reference_client.effects[name])):
                raise rejected(Rejection(rule=rule, where=f"{what} {affected[0]}", why=why))
        if written := sorted(set(verdict["weights"]) - reference_client.written_weights):
            raise rejected(Rejection(rule="weights-changed", where=written[0], why=WRITES_WEIGHTS))
        if verdict["kept"]:
            why = "returns memory that it keeps from call to call; give each call an output of its own"
            raise rejected(Rejection(rule="output-reused", where="the output", why=why))

    def _prove(self, checked: VerifiedConfig) -> None:
        """Check that the plan leaves little of the work to torch."""
        answer = self._replayed(checked, "replay_operators", seed=checked.weights)
        found = [Operator.model_validate(one) for one in answer["operators"]]
        reference = [Operator.model_validate(one) for one in self._pair.reference_client.counted["details"]]
        allow = self._pair.settings.allow_torch
        broken = torch_violation(found, reference, allow) or proof_violation(None, checked.launches, allow)
        if broken is not None:
            raise rejected(broken)

    def _replayed(self, checked: VerifiedConfig, op: str, **arguments: Any) -> Message:
        """Send a request about a plan; raises `Failure` where executing it fails."""
        with _plan_at_fault(checked):
            return self._pair.reference_client.replay_call(self._seconds, op, number=checked.serial, **arguments)


@contextlib.contextmanager
def _plan_at_fault(checked: VerifiedConfig) -> Iterator[None]:
    """Raise `Failure` for a plan that ends the process which executes it."""
    try:
        yield
    except ReplayFailed as reason:
        failure = Failure(reason.status, str(reason), checked.correctness)
        failure.config = checked.config
        raise failure from None
