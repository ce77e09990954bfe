"""The verification of a candidate: checked, shown to do the work itself, timed, checked again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ...core import Config, Correctness, KernelProfile, Rejection, Replay, SecondWorkload, Status, Target
from ...core.text import first_line
from ..candidate.replayer import Replayer
from ..candidate.verified import CandidateError, CheckPlan, RecordedPlan, VerifiedConfig, rejected
from ..compilation.pool import VERDICTS, CompileResult
from ..correctness.alternate_shapes import alternate_sizes
from ..correctness.distributions import OTHER_STRIDES, SPECIAL
from ..guards.own_kernels import own_names, proof_violation, python_violation
from ..guards.torch_share import Operator, said_of_start, torch_violation
from ..languages.base import support_of
from ..profiling.operator_kinds import COMPUTE
from ..settings import AllowTorch
from ..timing.hidden_work import IdleDevice
from ..timing.priority import raised
from ..workers.channel import Message
from .evaluation_context import EvaluationContext
from .launch_plans import LaunchPlans

RECHECKED_CHUNKS = 6
RECHECK_ONE_IN = 4
"""After this share of the chunks of timed calls, chosen at random, the last output is checked, in addition to the
first and the very last. A kernel that sometimes skips work, or starts to, would pass a single check."""
_REMARKS = {
    "special_values": (SPECIAL, "with NaN and infinity among the inputs: "),
    "other_strides": (OTHER_STRIDES, "with inputs that are not contiguous: "),
}
"""Remarks by the field of `Correctness`; the one that may raise an exception comes last."""


class Verification(EvaluationContext):
    """The steps that verify one candidate. Each may raise `CandidateError`; a search has `quick` ones."""

    def __init__(self, *pair: Any, replayer: Replayer) -> None:
        """`replayer` executes launch plans; `close` ends it."""
        super().__init__(*pair)
        self.replayer = replayer
        self._plans = LaunchPlans(self, replayer)

    def pid_of(self, checked: VerifiedConfig) -> int:
        """Return the process that a config is timed in."""
        return self.replayer.pid if checked.replayed else self.client.worker.pid

    def close(self) -> None:
        """End the process that executes launch plans."""
        self.replayer.close()

    def plan(self) -> CheckPlan:
        """Return the checks: few in a search, since finalists are checked again.

        Precision is among them: the fastest of a search are those that compute in less, if nothing refuses that.
        """
        if self.quick:
            assert self.settings.search is not None
            return CheckPlan(tuple(self.draw() for _ in range(self.settings.search.checks)), thorough=False)
        seeds = tuple(self.draw() for _ in range(self.settings.checks))
        with self.stage("distributions"):  # once for a problem
            return CheckPlan(seeds, self.reference_client.distributions)

    @property
    def records(self) -> bool:
        """Whether the kernel's launches can be recorded; what an interpreter runs has none."""
        target = self.client.kernel.target
        recorded = target in support_of(self.client.kernel.language).records
        recorded = recorded and (self.settings.replay_on_cpu or not self.on_cpu)
        return recorded and (target is Target.CPU) == self.on_cpu and not self.quick

    def check(
        self, config: Config, plan: CheckPlan, compiled: CompileResult | None = None, keep: bool = False
    ) -> VerifiedConfig:
        """Compile and compare; only once where the launch plan will be compared instead (`replay`).

        That once has a seed of its own: the candidate sees nothing of what the launch plan is compared on.
        """
        if self.records:
            plan = CheckPlan((self.draw(),), thorough=False, precise=False)
        with self.stage("check"):
            ahead_s = compiled.seconds if compiled else None
            checked = self.client.check(self.reference_client, config, plan, keep=keep, ahead_s=ahead_s)
        self.release()
        return checked

    def prove(self, checked: VerifiedConfig) -> None:
        """Check that the candidate launches its own kernels, and leaves little of the work to torch.

        Of what is replayed the launch plan shows both.
        """
        if self.quick or checked.replayed or (self.records and checked.replay is None):
            return
        with self.stage("guards"):
            found = self.client.operators(checked)
            checked.library = tuple(dict.fromkeys(item.name for item in found.operators if item.kind == COMPUTE))
            reference = [Operator.model_validate(item) for item in self.reference_client.counted["details"]]
            allow = self.allow_torch
            broken = torch_violation(found.operators, reference, allow)
            if broken is not None and allow is AllowTorch.GLUE:
                broken = self._beyond_start(checked, found.operators, reference)
            if self.reference_client.has_outputs:
                self.require_launches(found.launches)
                broken = broken or proof_violation(None, found.launches, allow)
            if found.own_ms is not None and self.client.kernel.target is Target.CPU:
                broken = broken or python_violation(found.call_ms, found.own_ms, allow)
            if broken is not None:
                raise rejected(broken)

    def _beyond_start(
        self, checked: VerifiedConfig, operators: Sequence[Operator], reference: Sequence[Operator]
    ) -> Rejection | None:
        """Return the rule that torch's work breaks beyond what it does in the user's function as it stands."""
        families = self.reference_client.torch_of_start(operators, checked.correctness.seeds[0])
        others = [item for item in operators if item.family not in families]
        broken = torch_violation(others, reference, AllowTorch.GLUE)
        if broken is None:
            remark = {"torch_as_start": said_of_start(operators, families)}
            checked.correctness = checked.correctness.model_copy(update=remark)
        return broken

    def start_replaying(self) -> None:
        """Start the process that executes launch plans, where there will be one, or take the one that was started."""
        if self.records:
            self.replayer.start()

    def replay(self, checked: VerifiedConfig, plan: CheckPlan) -> Sequence[RecordedPlan]:
        """Make the launch plan, and have it replayed; `checked.replay` says whether it can be.

        Where it cannot, the candidate's own calls are compared instead. Returns the plan where there is one, or those
        of several sets of integers. Raises `CandidateError` for a plan that breaks a rule, and for a kernel that is not
        correct.
        """
        if not self.records:
            reason = self._not_recorded
            checked.replay = Replay(replayed=False, reason=reason)
            return ()
        if recorded := self._plans.record(checked):
            self._plans.load(checked, recorded, plan)
            if len(recorded) == 1 and not checked.replayed and (again := self._plans.record_again(checked)):
                recorded = again
                self._plans.load(checked, recorded, plan)
        if not checked.replayed:
            with self.stage("check"):
                self.client.check_further(self.reference_client, checked, plan)
            self.release()
            self.prove(checked)
        return recorded

    @property
    def _not_recorded(self) -> str:
        if self.on_cpu and not self.settings.replay_on_cpu:
            return "a quick evaluation on a CPU makes no launch plan"
        where = "CPU" if self.on_cpu else "GPU"
        return f"what {self.client.kernel.language.name} launches on a {where} is not recorded"

    def timers(self, several: Sequence[VerifiedConfig]) -> list[Callable[[int], Message]]:
        """Return the candidates' timers."""
        idle = IdleDevice(0.0, lambda: 0.0) if self.on_cpu else self.reference_client.idle
        graph = self.settings.graph
        timers = [
            self._plans.timer(checked)
            if checked.replayed
            else self.client.timer(checked, self.timing_seeds(), graph, idle)
            for checked in several
        ]
        if self.quick:
            return timers
        return [
            timer if checked.replayed else self._rechecked(timer, checked)
            for timer, checked in zip(timers, several, strict=True)
        ]

    def _rechecked(self, timer: Callable[[int], Message], checked: VerifiedConfig) -> Callable[[int], Message]:
        """Return the timer with a check of its last call's outputs after some chunks of samples."""
        chunks = itertools.count()

        def take(samples: int) -> Message:
            message = timer(samples)
            if next(chunks) < RECHECKED_CHUNKS or self.draw() % RECHECK_ONE_IN == 0:
                try:
                    self.recheck(checked)
                except CandidateError as failure:
                    failure.config = checked.config
                    raise
            return message

        return take

    def launches_ms(self, checked: VerifiedConfig) -> dict[str, float]:
        """Return the time of each kernel's launches, by its name; in a search only, and where there are several."""
        if not self.quick or len(own_names(self.client.kernel.source)) < 2:
            return {}
        with self.stage("launches"), raised((self.client.worker.pid,) if self.on_cpu else ()):
            return self.client.launches_ms(checked)

    def recheck(self, checked: VerifiedConfig) -> None:
        """Check that timed calls did the work too; of a replayed plan their timer does."""
        if not checked.replayed:
            with self.stage("recheck"):
                self.client.recheck(self.reference_client, checked)

    def time_packing(self, checked: VerifiedConfig) -> None:
        """Time what packs the weights of a replayed config, apart from its calls; `checked.packing` says how long."""
        self._plans.time_packing(checked)

    def profile(self, checked: VerifiedConfig) -> KernelProfile | None:
        """Profile one call and check that the candidate's own kernel ran; None in a search."""
        if self.quick:
            return None
        with self.access.upgraded(), self.stage("profile"):
            source = self.client.kernel.bind(checked.config).source
            found = self.client.profile(checked, sorted(own_names(source)), self.settings.read_code).profile
            if not self.on_cpu:
                broken = proof_violation(found, {}, self.allow_torch)
                if broken is not None:
                    raise rejected(broken)
            return found

    def try_other_sizes(self, checked: VerifiedConfig, compiled: CompileResult | None) -> SecondWorkload | None:
        """Check the kernel at other sizes; a failure there is a remark, not the result."""
        sizes = (
            alternate_sizes(self.reference_client.problem) if self.settings.second_workload and not self.quick else None
        )
        if sizes is None:
            return None
        refused = compiled.elsewhere if compiled else None
        if refused is not None and refused.refused:
            return SecondWorkload(sizes=sizes, status=VERDICTS[refused.status], message=first_line(refused.message))
        with self.stage("second workload"):
            try:
                self.client.check_at(self.reference_client, checked.config, sizes, checked.correctness.seeds[0])
            except CandidateError as failure:
                if failure.status is Status.NOT_MEASURED:
                    raise
                return SecondWorkload(sizes=sizes, status=failure.status, message=first_line(failure.message))
            return SecondWorkload(sizes=sizes, status=Status.OK)

    def with_remarks(self, checked: VerifiedConfig) -> Correctness:
        """Return the correctness with what is not a failure: other strides, NaN and infinity.

        The last checks of a loaded config: it may be unloaded.
        """
        if self.quick:
            return checked.correctness
        found: dict[str, str] = {}
        with self.stage("remarks"):
            for field, (distribution, prefix) in _REMARKS.items():
                self.access.yield_to_waiter()
                if distribution in self.reference_client.remarks:
                    difference = self.client.difference(self.reference_client, checked, distribution)
                    found[field] = difference and prefix + first_line(difference)
                if not self.client.alive:
                    break
        return checked.correctness.model_copy(update=found)
