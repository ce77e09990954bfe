"""The verification of a candidate: checked, shown to do the work itself, timed, checked again."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...core import Ceilings, Config, Correctness, KernelProfile, Rejection, Replay, SecondWorkload, Status, Target
from ...core.text import first_line
from ..candidate.client import CandidateClient
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
from ..compilation.pool import CompileResult
from ..correctness.alternate_shapes import alternate_sizes
from ..correctness.distributions import OTHER_STRIDES, SPECIAL
from ..guards.own_kernels import own_names, proof_violation, python_violation
from ..guards.torch_share import Operator, torch_violation
from ..languages.base import support_of
from ..reference.client import ReferenceClient, ReplayFailed
from ..settings import Settings
from ..workers.channel import Message

RECHECKED_CHUNKS = 6
RECHECK_ONE_IN = 4
"""After this share of the chunks of timed calls, chosen at random, the last output is checked, beside the first and
the very last. A kernel that sometimes skips work, or starts to, would pass a single check."""
CHUNKS_PER_SEED = 8
"""On a CPU, where drawing inputs is slow, this many chunks of samples share a seed."""
IMPOSSIBLE_SHARE = 0.5
"""A time below this share of the time to move the bytes is impossible on the device."""
_REMARKS = {
    "special_values": (SPECIAL, "with NaN and infinity among the inputs: "),
    "other_strides": (OTHER_STRIDES, "reads the input as if it were contiguous: "),
}
"""Remarks by the field of `Correctness`; the one that may raise an exception comes last."""
CPU_CACHE_BYTES = 512e6
"""More bytes than the caches of any processor hold."""


class Verification:
    """Verifies one candidate through its client and the reference worker. Each step may raise `Failure`.

    `draw` gives seeds; `stages` collects the seconds of each step.
    """

    def __init__(
        self,
        reference_client: ReferenceClient,
        client: CandidateClient,
        settings: Settings,
        device: str,
        draw: Callable[[], int],
        quick: bool = False,
    ) -> None:
        self.reference_client = reference_client
        self.client = client
        self.stages: dict[str, float] = {}
        self._settings = settings
        self._on_cpu = device == "cpu"
        self._draw = draw
        self._quick = quick

    def plan(self) -> CheckPlan:
        """Return the checks: few in a search, since finalists are checked again.

        Precision is among them: the fastest of a search are those that compute in less, if nothing refuses that.
        """
        if self._quick:
            assert self._settings.search is not None
            return CheckPlan(tuple(self._draw() for _ in range(self._settings.search.checks)), thorough=False)
        seeds = tuple(self._draw() for _ in range(self._settings.checks))
        return CheckPlan(seeds, self.reference_client.distributions)

    @property
    def records(self) -> bool:
        """Whether the kernel's launches can be recorded; what an interpreter runs has none."""
        target = self.client.kernel.target
        recorded = target in support_of(self.client.kernel.language).records
        return recorded and (target is Target.CPU) == self._on_cpu and not self._quick

    def check(
        self, config: Config, plan: CheckPlan, compiled: CompileResult | None = None, keep: bool = False
    ) -> VerifiedConfig:
        """Compile and compare; only once where the launch plan will be compared instead (`replay`).

        That once has a seed of its own: the candidate sees nothing of what the launch plan is compared on.
        """
        if self.records:
            plan = CheckPlan((self._draw(),), thorough=False, precise=False)
        with self.stage("check"):
            ahead_s = compiled.seconds if compiled else None
            checked = self.client.check(self.reference_client, config, plan, keep=keep, ahead_s=ahead_s)
        self.release()
        return checked

    def release(self) -> None:
        """End a phase: both processes free large tensors that they can draw again."""
        if not self._on_cpu:
            self.client.release()
            self.reference_client.release()

    def prove(self, checked: VerifiedConfig) -> None:
        """Check that the candidate launches its own kernels, and leaves little of the work to torch."""
        if self._quick:
            return
        with self.stage("guards"):
            found = self.client.operators(checked)
            reference = [Operator.model_validate(one) for one in self.reference_client.counted["details"]]
            allow = self._settings.allow_torch
            broken = torch_violation(found.operators, reference, allow)
            broken = broken or proof_violation(None, found.launches, allow)
            if found.own_ms is not None and self.client.kernel.target is Target.CPU:
                broken = broken or python_violation(found.call_ms, found.own_ms, allow)
            if broken is not None:
                raise rejected(broken)

    def replay(self, checked: VerifiedConfig, plan: CheckPlan) -> RecordedPlan | None:
        """Make the launch plan, and have the reference worker replay it; `checked.replay` says whether it can.

        Where it cannot, the candidate's own calls are compared instead. Returns the plan where there is one. Raises
        `Failure` for a plan that breaks a rule, and for a kernel that is not correct.
        """
        language, target = self.client.kernel.language, self.client.kernel.target
        if not self.records:
            reason = f"launches of {language.name} on {target.value} are not recorded"
            checked.replay = Replay(replayed=False, reason=reason)
            return None
        if (recorded := self._record(checked)) is not None:
            self._load(checked, recorded, plan)
        if not checked.replayed:
            with self.stage("check"):
                self.client.check_further(self.reference_client, checked, plan)
            self.release()
        return recorded

    def _record(self, checked: VerifiedConfig) -> RecordedPlan | None:
        """Record the launch plan twice, with other weights and inputs; None, with the reason noted, without a plan.

        Raises `Failure` where the two differ: then what the kernel does depends on more than its sizes.
        """
        with self.stage("recording"):
            seeds = self._draw(), self._draw()
            one, two = (self.client.record(self.reference_client, checked, seed) for seed in seeds)
            checked.weights = seeds[-1]  # those that it has now
            self.release()
            if isinstance(one, str) or isinstance(two, str):
                checked.replay = Replay(replayed=False, reason=one if isinstance(one, str) else str(two))
                return None
            if (difference := one.plan.difference(two.plan)) is not None:
                why = f"two calls at the same sizes launch differently: {difference}"
                raise rejected(Rejection(rule="changing-plan", where="forward", why=why))
            return two

    def _load(self, checked: VerifiedConfig, recorded: RecordedPlan, plan: CheckPlan) -> None:
        """Hand the plan to the reference worker, which replays it on fresh weights and inputs and compares."""
        with self.stage("replay check"):
            reason = self.reference_client.load_plan(checked.serial, recorded.plan, recorded.constants, recorded.path)
            if reason is None:
                reason = self._replay_differs(checked, plan)
            checked.replay = Replay(replayed=reason is None, reason=reason or "", steps=tuple(recorded.plan.lines()))
            if reason is None:
                checked.launches = dict(Counter(recorded.plan.codes[one.code].name for one in recorded.plan.launches()))
                self._prove_replay(checked)

    def _replay_differs(self, checked: VerifiedConfig, plan: CheckPlan) -> str | None:
        """Return why the plan does not do what the reference does; raises `Failure` for side effects."""
        comparisons = Comparisons(plan.seeds)
        first, *others = plan.seeds
        checks = [(first, None), *((seed, None) for seed in others), *((first, name) for name in plan.distributions)]
        for number, (seed, distribution) in enumerate(checks):
            verdict = self._replayed(checked, "replay", seed=seed, distribution=distribution, precise=number == 0)
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
        if (trivial := trivial_output_in(verdict)) is not None:
            raise rejected(trivial)
        for name, (rule, what, why) in SIDE_EFFECTS.items():
            if affected := sorted(set(verdict["effects"][name]) - set(self.reference_client.effects[name])):
                raise rejected(Rejection(rule=rule, where=f"{what} {affected[0]}", why=why))
        if written := sorted(set(verdict["weights"]) - self.reference_client.written_weights):
            raise rejected(Rejection(rule="weights-changed", where=written[0], why=WRITES_WEIGHTS))
        if verdict["kept"]:
            why = "returns memory that it keeps from call to call; give each call an output of its own"
            raise rejected(Rejection(rule="output-reused", where="the output", why=why))

    def _prove_replay(self, checked: VerifiedConfig) -> None:
        """Check that the plan leaves little of the work to torch."""
        answer = self._replayed(checked, "replay_operators", seed=checked.weights)
        found = [Operator.model_validate(one) for one in answer["operators"]]
        reference = [Operator.model_validate(one) for one in self.reference_client.counted["details"]]
        broken = torch_violation(found, reference, self._settings.allow_torch)
        broken = broken or proof_violation(None, checked.launches, self._settings.allow_torch)
        if broken is not None:
            raise rejected(broken)

    def timers(self, several: Sequence[VerifiedConfig]) -> list[Callable[[int], Message]]:
        """Return the candidates' timers."""
        empty_ms = 0.0 if self._on_cpu else self.reference_client.empty_ms
        graph = self._settings.graph
        timers = [
            self._plan_timer(checked)
            if checked.replayed
            else self.client.timer(checked, self.timing_seeds(), graph, empty_ms)
            for checked in several
        ]
        return timers if self._quick else [self._rechecked(*one) for one in zip(timers, several, strict=True)]

    def _replayed(self, checked: VerifiedConfig, op: str, **arguments: Any) -> Message:
        """Send a request about a plan; raises `Failure` where executing it fails."""
        seconds = 2 * self._settings.limits.call_s  # the reference runs too
        with _plan_at_fault(checked):
            return self.reference_client.replay_call(seconds, op, number=checked.serial, **arguments)

    def _plan_timer(self, checked: VerifiedConfig) -> Callable[[int], Message]:
        seconds = 2 * self._settings.limits.call_s
        timer = self.reference_client.plan_timer(checked.serial, self.timing_seeds(), self._settings.graph, seconds)

        def take(samples: int) -> Message:
            with _plan_at_fault(checked):
                return timer(samples)

        return take

    def _rechecked(self, timer: Callable[[int], Message], checked: VerifiedConfig) -> Callable[[int], Message]:
        """Return the timer with a check of its last call's outputs after some chunks of samples."""
        chunks = itertools.count()

        def take(samples: int) -> Message:
            message = timer(samples)
            if next(chunks) < RECHECKED_CHUNKS or self._draw() % RECHECK_ONE_IN == 0:
                try:
                    self.recheck(checked)
                except Failure as failure:
                    failure.config = checked.config
                    raise
            return message

        return take

    def recheck(self, checked: VerifiedConfig) -> None:
        """Check that timed calls did the work too."""
        with self.stage("recheck"):
            if not checked.replayed:
                self.client.recheck(self.reference_client, checked)
                return
            verdict = self._replayed(checked, "replay_recheck")
            if verdict["status"] != Status.OK:
                why = f"a timed replay gave something else than the reference: {verdict['message']}"
                raise rejected(Rejection(rule="wrong-when-timed", where="while it was timed", why=why))

    def profile(self, checked: VerifiedConfig) -> KernelProfile | None:
        """Profile one call and check that the candidate's own kernel ran; None in a search."""
        if self._quick:
            return None
        with self.stage("profile"):
            source = self.client.kernel.bind(checked.config).source
            found = self.client.profile(checked, sorted(own_names(source))).profile
            if not self._on_cpu:
                broken = proof_violation(found, {}, self._settings.allow_torch)
                if broken is not None:
                    raise rejected(broken)
            return found

    def try_other_sizes(self, checked: VerifiedConfig) -> SecondWorkload | None:
        """Check the kernel at other sizes; a failure there is a remark, not the result."""
        sizes = (
            alternate_sizes(self.reference_client.problem)
            if self._settings.second_workload and not self._quick
            else None
        )
        if sizes is None:
            return None
        with self.stage("second workload"):
            try:
                self.client.check_at(self.reference_client, checked.config, sizes, checked.correctness.seeds[0])
            except Failure as failure:
                return SecondWorkload(sizes=sizes, status=failure.status, message=first_line(failure.message))
            return SecondWorkload(sizes=sizes, status=Status.OK)

    def with_remarks(self, checked: VerifiedConfig) -> Correctness:
        """Return the correctness with what is no failure: other strides, NaN and infinity.

        The last checks of a loaded config: it may be unloaded.
        """
        if self._quick:
            return checked.correctness
        found: dict[str, str] = {}
        with self.stage("remarks"):
            for field, (distribution, prefix) in _REMARKS.items():
                if distribution in self.reference_client.remarks:
                    difference = self.client.difference(self.reference_client, checked, distribution)
                    found[field] = difference and prefix + first_line(difference)
                if not self.client.alive:
                    break
        return checked.correctness.model_copy(update=found)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the seconds spent inside to a stage of the evaluation."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - start

    def timing_seeds(self) -> Iterator[int]:
        """Yield seeds for the inputs of timed calls, one for each chunk."""
        for number in itertools.count():
            if number % (CHUNKS_PER_SEED if self._on_cpu else 1) == 0:
                seed = self._draw()
            yield seed


@contextlib.contextmanager
def _plan_at_fault(checked: VerifiedConfig) -> Iterator[None]:
    """Raise `Failure` for a plan that ends the process which executes it."""
    try:
        yield
    except ReplayFailed as reason:
        failure = Failure(reason.status, str(reason), checked.correctness)
        failure.config = checked.config
        raise failure from None


def impossible(latency_ms: float, bytes_moved: float, ceilings: Ceilings) -> Rejection | None:
    """Check the rule 'impossible-time': bytes that no cache holds must move, at the best rate at most."""
    floor_ms = bytes_moved / ceilings.copy_gb_s / 1e6
    if latency_ms >= IMPOSSIBLE_SHARE * floor_ms:
        return None
    return Rejection(
        rule="impossible-time",
        where=f"{latency_ms:.4f} ms a call",
        why=f"reading the inputs and writing the outputs once takes {floor_ms:.4f} ms at the best rate that was "
        "measured on this device; work is left out, or the clock is deceived",
    )
