"""The multi-turn loop: analyse, propose, evaluate, repair, keep the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..core import Budget, Config, Evaluation, Kernel, Profile, Speedup
from ..core.baselines import STRICT, against_text
from ..core.events import Analysed, Emit, Finished, ProposalFailed, RulesSkipped, StartMeasured
from ..core.verdict import NOT_REPLAYED
from .batch import Batch, search
from .bottleneck import Category, analyse
from .final_checks import FinalChecks
from .lane import Lane
from .parallel import raise_any, run_parallel
from .population import Population
from .proposer import NoKernelError, Proposer, Rewrites, RunEndedError, TurnContext
from .stopping import ROOFLINE, StoppingCriteria, at_floor
from .turn import Attempt, Candidate, Turn
from .workbench import Workbench

OTHER = "first kernel"
"""Origin of the trial of a further start kernel."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    start: Evaluation
    """The start as timed with the best kernel; its first evaluation if no kernel passed the final check."""
    kernel: Kernel
    """The best kernel, its parameters bound; the start kernel when nothing was better."""
    best: Evaluation
    """The best kernel's final measurement, in a fresh process; the start's evaluation if that failed."""
    turns: tuple[Turn, ...]
    stopped: str
    """Why the loop ended, in words."""
    verified: bool
    cut_short: bool = False
    """Whether a budget, or a model that failed, ended it: then it can continue with more."""
    trials: int = 0
    """Evaluations until the loop ended, as a limit on trials counts them: of first kernels, of turns, and of what
    seemed to reach the target."""

    @property
    def gain(self) -> Speedup | None:
        """Speedup of the best kernel over the start, timed in one run; None if they were not timed together."""
        return self.best.gain_over(self.start) if self.verified else None

    @property
    def faster(self) -> bool:
        """Whether the best kernel is verified, and faster than the start beyond doubt."""
        return self.verified and self.best.kernel_digest != self.start.kernel_digest

    def reached(self, target: float | None, against: str = STRICT) -> bool | None:
        """Return whether the verified speedup over a baseline is at least the target; None without a target."""
        if target is None:
            return None
        speedup = self.best.speedup_against(against)
        trusted = self.verified and self.best.contention is None
        return trusted and speedup is not None and speedup.ratio >= target


@dataclass(frozen=True)
class Expanded:
    """The result of one lane."""

    turn: Turn | None
    """None when there was nothing to try."""
    ended: str | None
    """Why the whole run has to end, in words."""


class Optimization:
    """One problem, one start kernel, on a workbench that measures nothing twice.

    With a beam of N, the N fastest kernels stay alive and each iteration expands them N times in parallel: a change
    that costs time at first may still lead to the fastest kernel. A proposer decides by its arguments only, so a
    resumed run repeats the same turns up to where the earlier one ended, and continues from there.
    """

    def __init__(
        self,
        workbench: Workbench,
        kernel: Kernel,
        proposer: Proposer,
        criteria: StoppingCriteria,
        emit: Emit,
        keep: Callable[[Turn], None],
        cost: Callable[[str], dict[str, float]] = lambda lane: {},
        clock: Callable[[], float] = time.monotonic,
        others: Sequence[Kernel] = (),
    ) -> None:
        """`keep` writes a finished turn; `cost` returns the cost of a lane's model calls. `others` are further kernels
        to begin with, which need not be as fast as the start."""
        self.workbench = workbench
        self.proposer = proposer
        self.criteria = criteria
        self.emit = emit
        self.kernel = kernel
        self.others = others
        self.turns: list[Turn] = []
        self._keep = keep
        self._cost = cost
        self._clock = clock
        self._started = clock()
        self._population = Population()
        self._cut_short = False
        self._exhausted: set[str] = set()
        """Digests of kernels in which nothing was left to try, in a run with several starts."""

    def run(self) -> Outcome:
        """Run to the end; a start kernel that fails ends the run at once."""
        try:
            return self._run()
        finally:
            self.emit(Finished())

    def _run(self) -> Outcome:
        start = self.workbench.evaluate(self.kernel, Config(), "start")
        if start.speedup_against(self.criteria.against) is None:
            missing = f"not timed against {against_text(self.criteria.against, start.precision)}"
            stopped = f"the start kernel, {start.status}: {start.message or missing}"
            return Outcome(start, self.kernel, start, (), stopped, verified=start.ok, trials=self.workbench.trials)
        self.workbench.start, self.criteria = start, replace(self.criteria, start=start)
        self._checks = FinalChecks(self.workbench, self._population, self.criteria, self.kernel)
        self._population.add([Candidate(self.kernel, start), *self._evaluated_others()])
        profile = self.workbench.profile()
        self.emit(StartMeasured(start, profile))
        ended: str | None = None
        while ended is None:
            ended = self._stop(profile) or self._iterate(profile)
        return self._finish(start, ended)

    def _evaluated_others(self) -> list[Candidate]:
        found = [Candidate(item, self.workbench.evaluate(item, Config(), OTHER)) for item in self.others]
        return [
            item for item in found if item.evaluation.speedup is not None and not self.criteria.refusal(item.evaluation)
        ]

    def _iterate(self, profile: Profile) -> str | None:
        """Expand the beam once; return why the run ends, or None."""
        number = self.turns[-1].number + 1 if self.turns else 1
        members = self._population.beam(self.criteria.beam, self._exhausted)
        tasks = []
        for i in range(self.criteria.beam):
            lane, member = Lane(self.workbench, number, i, self._late, self._left), members[i % len(members)]
            tasks.append(partial(self._expand, profile, lane, member, i // len(members)))
        outcomes = run_parallel(tasks)
        expanded = [outcome for outcome in outcomes if isinstance(outcome, Expanded)]
        self._take([item.turn for item in expanded if item.turn is not None])
        raise_any(outcomes)
        if ended := next((item.ended for item in expanded if item.ended), None):
            self._cut_short = True
            return ended
        if any(item.turn is not None for item in expanded):
            return None
        # A turn that a limit ended before any measurement may have had more to try.
        if (late := self._late()) is not None:
            self._cut_short = True
        if late is None and self.others:  # a slower start may have more to gain
            self._exhausted |= {member.kernel.digest for member in members}
            if self._population.beam(1, self._exhausted):
                return None
        return late or "nothing left to try"

    def _expand(self, profile: Profile, lane: Lane, candidate: Candidate, variant: int) -> Expanded:
        """Do one turn in one lane: analysis, proposal, evaluation, repairs."""
        attempts: list[Attempt] = []
        ended = None
        metrics = analyse(profile, candidate.kernel, candidate.evaluation, self._failed())
        context = TurnContext(self.workbench.problem, profile, candidate, metrics, tuple(self.turns), lane, variant)
        try:
            context = replace(context, analysis=self.proposer.analyse(context))
            analysis = context.analysis
            self.emit(Analysed(lane.name, analysis.category, analysis.performance, analysis.evidence))
            while len(attempts) <= self.criteria.repairs and (found := self._attempt(context, attempts)):
                attempts += found
                last = attempts[-1]
                if last.quick or last.correct or not last.error or not all(item.measured for item in last.evaluations):
                    break
                self.emit(ProposalFailed(lane.name, last.error))
        except RunEndedError as error:
            ended = str(error)
        if not (attempts or lane.tried or lane.tool_calls):
            return Expanded(None, ended)
        fastest = min(
            (item for item in lane.tried if self.criteria.refusal(item.evaluation) is None),
            key=lambda candidate: (
                self._population.knows(candidate.kernel),
                candidate.evaluation.contention is not None,
                candidate.latency_ms,
            ),
            default=None,
        )
        calls, cost = tuple(lane.tool_calls), self._cost(lane.name)
        turn = Turn(
            *(lane.number, lane.index, context.analysis, candidate, tuple(attempts), fastest),
            tool_calls=calls,
            skipped_rules=tuple(lane.skipped_rules),
            cost=cost,
        )
        return Expanded(turn, ended)

    def _attempt(self, context: TurnContext, failed: list[Attempt]) -> list[Attempt]:
        """Ask for proposals and evaluate them. Return the attempts, empty without a proposal."""
        told = len(context.lane.skipped_rules)
        try:
            proposal = self.proposer.propose(context, failed)
        except NoKernelError as error:
            return [Attempt(None, (), str(error))]
        if skipped := context.lane.skipped_rules[told:]:
            self.emit(RulesSkipped(context.lane.name, tuple(skipped)))
        if proposal is None:
            return []
        if isinstance(proposal, Rewrites):
            attempts = Batch(context.lane, context.candidate, proposal, self.emit).run()
        else:
            attempts = [search(context.lane, proposal, context.candidate.evaluation, self.emit)]
        return [replace(attempt, error=attempt.error or self._refused(attempt)) for attempt in attempts]

    def _refused(self, attempt: Attempt) -> str:
        """Return the reason why no result of an attempt counts; empty if one does, or if it was only screened."""
        refusals = [
            self.criteria.refusal(evaluation) for evaluation in attempt.evaluations if evaluation.reference is not None
        ]
        return refusals[0] or "" if refusals and all(refusals) and not attempt.quick else ""

    def _take(self, turns: list[Turn]) -> None:
        """Record the turns and their kernels, in the order of their lanes."""
        before = self._population.best
        self._population.add([turn.found for turn in turns if turn.found is not None])
        for turn in turns:
            if before is not None and turn.found is not None and turn.found is self._population.best:
                turn = replace(turn, improved=True, gain=turn.found.gain_over(before))
            self.turns.append(turn)
            self._keep(turn)
            self.emit(turn.ended())

    def _stop(self, profile: Profile) -> str | None:
        """Return why there is nothing more to do, or None."""
        target, against = self.criteria.target_speedup, self.criteria.against
        if not self._busy():
            self._checks.renew()
        if target is not None and self._checks.confirms(
            lambda evaluation: (over := evaluation.speedup_against(against)) is not None and over.ratio >= target
        ):
            return f"target of {target:g}x reached"
        if self._checks.confirms(partial(at_floor, profile)):
            return f"{ROOFLINE:.0%} of what the roofline allows reached"
        if self._population.best is None:
            return "no kernel is left"
        if (done := self.criteria.done(self.turns)) is None and (late := self._late()) is not None:
            self._cut_short = True
            return late
        return done

    def _busy(self) -> bool:
        """Return whether other processes disturbed all that was timed in the last turn.

        A check that is made again would be disturbed, too. Records tell this, so that a resumed run repeats the same
        checks.
        """
        attempts = self.turns[-1].attempts if self.turns else ()
        timed = [item for attempt in attempts for item in attempt.evaluations if item.measurement is not None]
        return bool(timed) and all(item.contention is not None for item in timed)

    def _late(self) -> str | None:
        """Return which limit on trials or seconds is reached, or None."""
        spent = Budget(trials=self.workbench.trials, seconds=self._clock() - self._started)
        limits = Budget(trials=self.criteria.budget.trials, seconds=self.criteria.budget.seconds)
        return limits.exhausted(spent)

    def _left(self) -> Budget:
        """Return the trials and seconds until a limit."""
        trials, seconds = self.criteria.budget.trials, self.criteria.budget.seconds
        return Budget(
            trials=None if trials is None else max(0, trials - self.workbench.trials),
            seconds=None if seconds is None else max(0.0, seconds - (self._clock() - self._started)),
        )

    def _failed(self) -> list[Category]:
        return [
            Category(turn.proposal.category) for turn in self.turns if not turn.helped and turn.proposal is not None
        ]

    def _finish(self, start: Evaluation, stopped: str) -> Outcome:
        """Return the outcome with the fastest kernel that passes its last check."""
        turns, trials = tuple(self.turns), self.workbench.trials
        if (winner := self._checks.winner(self._busy())) is not None:
            kernel, check = winner
            if self._checks.cut_short is not None:
                stopped += f"; the final check was cut short, and earlier measurements count: {self._checks.cut_short}"
                self._cut_short = True
            beside = check.start if check.start.latency_ms is not None else start
            return Outcome(beside, kernel, check.found, turns, stopped, True, self._cut_short, trials)
        stopped, refusal = "no kernel passed the final check", self._checks.refusal
        if refusal is not None:
            advice = " (`require_replay` accepts such kernels)" if NOT_REPLAYED in refusal else ""
            stopped += f"; {refusal}{advice}"
        return Outcome(start, self.kernel, start, turns, stopped, verified=False, trials=trials)
