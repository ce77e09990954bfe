"""Launch plans in a verification: recorded from the candidate's calls, replayed and compared beside the reference."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from ...core import Rejection, Replay, Status
from ..candidate.call_parts import CallParts
from ..candidate.packing_timer import PackingTimer
from ..candidate.replay_timer import ReplayTimer
from ..candidate.replayer import Replayer
from ..candidate.responses import BatchOutputs
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
from ..correctness.distributions import OTHER_WEIGHTS
from ..guards.measured_share import forbidden_step, share_violation
from ..guards.own_kernels import proof_violation
from ..guards.torch_share import Operator
from .pair import Pair

VARIANTS = 64
"""Of the problem's own inputs, among which checks choose; timed calls begin with the same."""


class LaunchPlans:
    """The steps of a verification that concern launch plans. Each may raise `Failure`."""

    def __init__(self, pair: Pair, replayer: Replayer) -> None:
        self._pair = pair
        self._replayer = replayer

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
        """Hand the plan to a process that replays it on fresh weights and inputs; the reference worker compares.

        Others may measure while it is compiled: that process does nothing else meanwhile.
        """
        pair = self._pair
        signatures = {code.parameters for code in recorded.plan.codes.values() if code.kind == "ptx"}
        with pair.access.released(), pair.stage("plan compiling"), _of(checked):
            if signatures:
                language = pair.client.kernel.language.id
                pair.reference_client.call("build_helpers", language=language, signatures=sorted(signatures))
            reason = self._replayer.load(checked.serial, recorded)
        with pair.stage("replay check"), _of(checked):
            if reason is None:
                reason = self._differs(checked, plan)
            steps = tuple(recorded.plan.all_lines())
            checked.replay = Replay(replayed=reason is None, reason=reason or "", steps=steps)
            checked.packs = recorded.plan.packing is not None
            if reason is None:
                checked.launches = dict(
                    Counter(recorded.plan.codes[launch.code].name for launch in recorded.plan.launches())
                )
                self._prove(checked)

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
        """Return why the plan does not do what the reference does; raises `Failure` for side effects."""
        comparisons = Comparisons(plan.seeds)
        first, *others = plan.seeds
        checks = [(first, None), *((seed, None) for seed in others), *((first, name) for name in plan.distributions)]
        for number, (seed, distribution) in enumerate(checks):
            self._pair.access.give_way()
            reference_client = self._pair.reference_client
            own = distribution in (None, OTHER_WEIGHTS)
            reason, verdict, outputs = self._replayer.check(
                reference_client, checked.serial, seed, distribution, self._variant() if own else 0, number == 0
            )
            if reason is not None:
                return reason
            if verdict["status"] != Status.OK:
                told = f"{told_of(distribution)}: " if distribution else ""
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
        """Raise `Failure` for a replay that was correct and broke a rule."""
        reference_client = self._pair.reference_client
        for name, (rule, what, why) in SIDE_EFFECTS.items():
            if affected := sorted(set(getattr(outputs, name)) - set(reference_client.effects[name])):
                raise rejected(Rejection(rule=rule, where=f"{what} {affected[0]}", why=why))
        if written := sorted(set(outputs.weights) - reference_client.written_weights):
            raise rejected(Rejection(rule="weights-changed", where=written[0], why=WRITES_WEIGHTS))
        if outputs.kept:
            why = "returns memory that it keeps from call to call; give each call an output of its own"
            raise rejected(Rejection(rule="output-reused", where="the output", why=why))

    def _prove(self, checked: VerifiedConfig) -> None:
        """Check that the plan launches kernels, and that torch takes little of its time; measure the host's work."""
        pair, allow = self._pair, self._pair.settings.allow_torch
        self._replayer.prepare_one(pair.reference_client, checked.serial, checked.weights)
        steps = self._replayer.hold_steps()
        broken = proof_violation(None, checked.launches, allow) or forbidden_step(steps, allow)
        if broken is None:
            reference = [Operator.model_validate(item) for item in pair.reference_client.counted["details"]]
            parts = CallParts(pair.client, self._replayer, pair.reference_client, checked, pair.on_cpu)
            checked.host_ms, broken = parts.measure(steps, lambda share: share_violation(share, reference, allow))
            pair.release()
        if broken is not None:
            raise rejected(broken)


@contextlib.contextmanager
def _of(checked: VerifiedConfig) -> Iterator[None]:
    """Add the config to a failure, and what was found before."""
    try:
        yield
    except Failure as failure:
        failure.config = checked.config
        failure.correctness = failure.correctness or checked.correctness
        raise
