"""The search loop: ask a tuner, evaluate, tell it, write the journal; at the end compare the best interleaved."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..core import (
    Budget,
    Config,
    DeviceError,
    Evaluation,
    Evaluator,
    Journal,
    Kernel,
    Problem,
    Status,
    Trial,
    Tuner,
)
from ..core.events import SEARCHED as SEARCHED
from ..core.events import CancelToken, Emit, FinalsStarted, TrialDone, ignore
from ..core.evidence import with_evidence
from ..core.workload_rows import loses, time_at
from .by_launch.tuner import ByLaunch

FINALISTS = 5
"""How many configs are measured again at most, by default."""
MOST_LOST = 3
"""Configs in a row that the machine kept from being measured, after which a search ends."""
CLOSE = 1.1
"""Maximum ratio of a finalist's time to the best."""
FINAL = "final"
"""The origin of finalists in the journal; that of other trials is `SEARCHED`."""


@dataclass
class Progress:
    """The state of a search."""

    trials: int = 0
    recalled: int = 0
    """Trials that were read from an earlier run's journal."""
    duplicates: int = 0
    """Trials whose code had been measured under another config."""
    statuses: Counter[Status] = field(default_factory=Counter)
    best: Evaluation | None = None
    seconds: float = 0.0
    """Seconds spent so far, on the trials of an earlier run too."""

    @property
    def failed(self) -> int:
        """Trials that did not end correct."""
        return self.trials - self.statuses[Status.OK]

    def event(self, latest: Evaluation, budget: Budget | None = None) -> TrialDone:
        """Return what to tell after a trial; with the search's budget, how much is left of it."""
        trials, seconds = (budget.trials, budget.seconds) if budget else (None, None)
        return TrialDone(
            SEARCHED, latest, self.trials, self.failed, self.duplicates, self.seconds, self.best, trials, seconds
        )

    def add(self, evaluation: Evaluation) -> None:
        """Count one more trial."""
        self.trials += 1
        self.statuses[evaluation.status] += 1
        self.duplicates += evaluation.duplicate_of is not None
        latency, best = evaluation.latency_ms, self.best.latency_ms if self.best else None
        if latency is not None and (best is None or latency < best):
            self.best = evaluation


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    evaluations: tuple[Evaluation, ...]
    """All trials, in order, those of an earlier run first."""
    finals: tuple[Evaluation, ...]
    """The finalists and the unchanged kernel (an empty config), timed interleaved with each other and with the
    reference; the fastest first."""
    progress: Progress
    stopped: str
    """Why it ended, in words."""

    @property
    def best(self) -> Evaluation | None:
        """The winner among the finalists; None when nothing was correct."""
        timed = (final for final in self.finals if final.latency_ms is not None and final.config)
        return next((final for final in timed if loses(final, self.start) is None), None)

    @property
    def faster(self) -> Evaluation | None:
        """The winner, if it is faster than the unchanged kernel or the latter could not be measured; otherwise None."""
        best, start = self.best, self.start
        if best is None or start is None or not start.latency_ms:
            return best
        return best if (best.latency_ms or 0.0) < start.latency_ms else None

    @property
    def surely_faster(self) -> bool:
        """Whether the winner is faster than the unchanged kernel beyond noise, or that one could not be measured."""
        best, start = self.best, self.start
        gain = best.gain_over(start) if best is not None and start is not None else None
        return gain.low > 1.0 if gain is not None else best is not None and (start is None or start.measurement is None)

    @property
    def start(self) -> Evaluation | None:
        """The unchanged kernel, timed interleaved with the finalists."""
        return next((final for final in self.finals if not final.config), None)

    def source(self, kernel: Kernel, problem: Problem) -> str:
        """Return the source of the tuned kernel, with its measurements in the header if it was timed."""
        best, start = self.best, self.start
        assert best is not None
        source = kernel.bind(best.config).source
        if best.speedup is None:
            return source
        return with_evidence(source, problem, best, start if start and start.measurement else best)


class Search:
    """Searches a kernel's space with a tuner.

    Of the space it needs to know only which configs are members, so that it may be one of schedules or a list: what an
    earlier run measured outside of it is left aside. The tuner chooses the members.

    Every trial is in the journal before the next begins. The tuner first gets the results in the journal, which are
    never measured again; their seconds count as spent. `patience` ends a search after that many trials in a row without
    a better one. At the end the fastest are compared, `finalists` at most, and the fastest of each of the
    `workload_sets` for which an autotuner may take its own config; of a search per launch also the fastest of
    each launch together. `cancel` ends it after a trial, by
    `RunCancelledError`.
    """

    def __init__(
        self,
        problem: Problem,
        kernel: Kernel,
        space: Container[Config],
        tuner: Tuner,
        evaluator: Evaluator,
        journal: Journal,
        budget: Budget,
        emit: Emit = ignore,
        patience: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        finalists: int = FINALISTS,
        workload_sets: Sequence[Sequence[str]] = (),
        cancel: CancelToken | None = None,
    ) -> None:
        self.problem = problem
        self.kernel = kernel
        self.space = space
        self.tuner = tuner
        self.evaluator = evaluator
        self.journal = journal
        self.budget = budget
        self._emit = emit
        self._cancel = cancel
        self.patience = patience
        self.finalists = finalists
        self.workload_sets = workload_sets
        self.progress = Progress()
        self._clock = clock
        self._started = clock()
        self._before = 0.0
        self._asked = 0
        self._stale = self._lost = 0
        self._stopped: str | None = None
        self._evaluations: list[Evaluation] = []
        self._least = [math.inf] * len(workload_sets)

    def run(self) -> Found:
        """Search until the space or the budget is used up, then compare the finalists."""
        finals = self._recall()
        last = self._clock()
        earlier = tuple(self._evaluations)
        # Closed at once, however the search ends: nothing may keep running after it.
        with contextlib.closing(
            self.evaluator.evaluate(self.problem, self.kernel, self._ask(), earlier)
        ) as evaluations:
            for evaluation in evaluations:
                self._note(SEARCHED, evaluation, self._clock() - last)
                if evaluation.measured:
                    self.tuner.tell(Config(evaluation.config), evaluation)
                self._count(evaluation)
                self._require_machine(evaluation)
                last = self._clock()
                if late := Budget(seconds=self.budget.seconds).exhausted(Budget(seconds=self._spent(last))):
                    self._stopped = late
                    break
        stopped = self._stopped or "every config of the space was tried"
        finalists = [Config(), *self._finalists()]
        if not finals or {Config(final.config) for final in finals} != set(finalists):
            self._emit(FinalsStarted(tuple(finalists)))
            began = self._clock()
            finals = self._compare(finalists)
            # Timed interleaved: they have no individual times.
            each = (self._clock() - began) / len(finalists)
            for final in finals:
                self._note(FINAL, final, each)
        if (lost := next((final for final in finals if not final.measured), None)) is not None:
            stopped += f"; the final comparison was cut short: {lost.message}"
        finals.sort(key=lambda final: (final.latency_ms is None, final.latency_ms))
        if isinstance(self.tuner, ByLaunch) and (remark := self.tuner.remark(finals)):
            stopped += f"; {remark}"
        return Found(tuple(self._evaluations), tuple(finals), self.progress, stopped)

    def so_far(self, stopped: str) -> Found:
        """Return the results of an interrupted search, without a comparison of finalists."""
        return Found(tuple(self._evaluations), (), self.progress, stopped)

    def _recall(self) -> list[Evaluation]:
        """Report an earlier run's results to the tuner; return its finals, if it got that far."""
        finals: dict[Config, Evaluation] = {}
        for trial in self.journal.of(Trial):
            evaluation = trial.evaluation
            if evaluation.kernel_digest != self.kernel.digest or not evaluation.measured:
                continue
            if trial.origin == FINAL:
                if not evaluation.config:  # it starts every comparison, and only the latest counts
                    finals.clear()
                finals[Config(evaluation.config)] = evaluation
            elif Config(evaluation.config) in self.space:
                self.tuner.tell(Config(evaluation.config), evaluation)
                self._asked += 1
                self._before += trial.seconds
                self.progress.recalled += 1
                self._count(evaluation)
        return list(finals.values())

    def _compare(self, finalists: Sequence[Config]) -> list[Evaluation]:
        """Measure the unchanged kernel and finalists interleaved; one whose text is the unchanged kernel's gets its."""
        unchanged = self.kernel.bind(Config()).digest
        same = {config for config in finalists[1:] if self.kernel.bind(config).digest == unchanged}
        different = [config for config in finalists if config not in same]
        found = dict(zip(different, self.evaluator.compare(self.problem, self.kernel, different), strict=True))
        start = found[finalists[0]]
        copies = {config: start.model_copy(update={"config": dict(config), "duplicate_of": {}}) for config in same}
        return [(found | copies)[config] for config in finalists]

    def _ask(self) -> Iterator[Config]:
        """Yield configs for the evaluator, each chosen when it is drawn."""
        while self._stopped is None:
            spent = Budget(trials=self._asked, seconds=self._spent(self._clock()))
            self._stopped = self.budget.exhausted(spent)
            if self.patience is not None and self._stale >= self.patience:
                self._stopped = f"{self.patience} trials in a row were no better"
            if self._stopped is not None or not (configs := self.tuner.ask(1)):
                return
            self._asked += 1
            yield configs[0]

    def _count(self, evaluation: Evaluation) -> None:
        before = self.progress.best
        self._evaluations.append(evaluation)
        self.progress.add(evaluation)
        self.progress.seconds = self._spent(self._clock())
        better = self.progress.best is not before
        for place, names in enumerate(self.workload_sets):
            if (latency := _latency_at(evaluation, names)) < self._least[place]:
                self._least[place], better = latency, True
        self._stale = 0 if better else self._stale + 1
        if self._cancel is not None:
            self._cancel.check()
        self._emit(self.progress.event(evaluation, self.budget))

    def _require_machine(self, evaluation: Evaluation) -> None:
        """Raise `DeviceError` where the machine lets nothing be measured: each config would end so."""
        self._lost = 0 if evaluation.measured else self._lost + 1
        if self._lost >= MOST_LOST:
            raise DeviceError(f"{self._lost} configs in a row could not be measured: {evaluation.message}")

    def _spent(self, now: float) -> float:
        """Return the seconds until a time of the clock: those of this run, and the trials of an earlier one."""
        return self._before + now - self._started

    def _note(self, origin: str, evaluation: Evaluation, seconds: float) -> None:
        self.journal.append(Trial.now(origin, evaluation, max(0.0, seconds)))

    def _finalists(self) -> list[Config]:
        """Return the fastest configs, one of each code."""
        timed = [e for e in self._evaluations if e.latency_ms is not None]
        timed.sort(key=lambda e: (e.latency_ms, e.duplicate_of is not None))
        same_code: dict[Config, Config] = {}
        for e in timed:
            if (e.latency_ms or 0.0) <= CLOSE * (timed[0].latency_ms or 0.0):
                same_code.setdefault(Config(e.duplicate_of or e.config), Config(e.config))
        found = list(same_code.values())[: self.finalists]
        sets = self.workload_sets if timed else ()
        found += [Config(min(timed, key=partial(_latency_at, names=names)).config) for names in sets]
        together = self.tuner.together() if isinstance(self.tuner, ByLaunch) else None
        if together is not None and all(together != e.config for e in self._evaluations):
            found.insert(0, together)
        return list(dict.fromkeys(found))


def _latency_at(evaluation: Evaluation, names: Sequence[str]) -> float:
    return time_at(evaluation, names) or math.inf
