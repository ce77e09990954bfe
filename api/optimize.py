"""`optimize`: one kernel, from start to verified end."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ..agent.batch import TUNER
from ..agent.loop import Optimization, Outcome
from ..agent.models.choice import Kind
from ..agent.results import Results
from ..agent.stopping import StoppingCriteria
from ..agent.turn import Turn
from ..agent.workbench import Workbench
from ..core import (
    Budget,
    FinishedRecord,
    Journal,
    OptionError,
    RunRecord,
    TurnRecord,
    read_journal,
)
from ..core.baselines import COMPILE, BesideCompile, beside_compile
from ..core.journal import of
from ..core.space_inference import declared_space
from ..corpus.functions.target import is_function
from ..evaluators.local import LocalEvaluator
from ..evaluators.remote.machines import Remote
from ..tuners import catalogue
from .archive import Memory
from .bring_back import bring_back, same_but_config
from .devices import choose_device
from .evaluators import Evaluators, joined
from .first_kernels import first_kernel_of, open_problem
from .jobs import Job, find_joint_job, require_timed
from .observers import RunObserver
from .options.groups import ReturnOptions
from .options.optimize import OptimizeOptions, RunOptions
from .proposers import Proposers, model_of
from .run_identity import require_same
from .solutions import save_solution

MODEL_ITERATIONS = 5
"""Turns of a language model, each of which costs money; rules come to an end by themselves."""


@dataclass(frozen=True)
class OptimizeResult:
    """A run that ended, and the files that it left."""

    job: Job
    outcome: Outcome
    kernel: Path | None
    """The file of the fastest verified kernel; None when there is none, or it was not to be saved."""
    history: Path
    target: float
    model: str
    """The proposer: a model, or 'rules'."""
    spent: Budget
    """Tokens and dollars of all exchanges with models."""
    solution: Path | None = None
    """The same kernel as a Solution, in the dataset of a recorded workload."""
    patch: Path | None = None
    """The result as a change of the user's own files; None where none was asked for, or nothing became faster."""

    @property
    def verified(self) -> bool:
        """Whether the best kernel was correct and timed again in a fresh process."""
        return self.outcome.verified

    @property
    def speedup(self) -> float | None:
        """Of the best kernel over the reference; None when it was not timed."""
        return self.outcome.best.speedup.ratio if self.outcome.best.speedup else None

    @property
    def reached(self) -> bool:
        """Whether the verified speedup over the target's baseline is at least the target."""
        return self.outcome.reached(self.target, self.job.against)

    @property
    def beside_compile(self) -> BesideCompile | None:
        """How the verified kernel stands to `torch.compile`; None where that was not timed beside it."""
        if not (self.job.beside_compile and self.outcome.verified):
            return None
        return beside_compile(self.outcome.best.metrics().interval_compile)

    def record(self) -> FinishedRecord:
        """How the run ended, as its journal holds it."""
        outcome = self.outcome
        return FinishedRecord(
            problem=self.job.problem.id,
            device=outcome.best.environment.get("device", self.job.device),
            backend=self.job.backend,
            workload=self.job.problem.workload,
            target_speedup=self.target,
            target_reached=self.reached,
            against=self.job.against,
            precision=self.job.precision.value,
            verified=outcome.verified,
            beside_compile=self.beside_compile,
            start=outcome.start.metrics(),
            best=outcome.best.metrics(),
            model=self.model,
            iterations=max((turn.number for turn in outcome.turns), default=0),
            turns=len(outcome.turns),
            tokens=self.spent.tokens or 0,
            dollars=round(self.spent.dollars or 0.0, 6),
            stopped=outcome.stopped,
            cut_short=outcome.cut_short,
            kernel=str(self.kernel) if self.kernel else None,
            solution=str(self.solution) if self.solution else None,
            history=str(self.history),
            patch=str(self.patch) if self.patch else None,
        )

    def summary(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it; times in milliseconds."""
        return self.record().summary()


def run_optimize(options: OptimizeOptions, observer: RunObserver) -> OptimizeResult:
    """Optimize one kernel."""
    with joined(options) as remote:
        device = choose_device(options, remote)
        with Session(options, device, remote, observer) as session:
            if is_function(options.named):
                session.start()  # its package is imported to translate it, which takes as long as ours
            # A mistake in the reference shows before anything is written.
            known = open_problem(options, options.named, device, model_of(options)) is None
            job = find_joint_job(options, options.named, device, remote, observer) if known else None
            if job is not None:
                require_timed(job)
            result = session.optimize(job or session.job(options.named))
    observer.run_ended(result)
    return result


class Session:
    """The shared parts of one command's kernels: evaluators, the results folder, and the proposer."""

    def __init__(self, options: RunOptions, device: str, remote: Remote | None, observer: RunObserver) -> None:
        self.device = device
        self._options = options
        self._remote = remote
        self._observer = observer
        self._memory = Memory(options.results, observer.note, options.archive)
        self._proposers = Proposers(options, observer, self._memory)
        self._evaluators = Evaluators(device, options.beam, options, remote)

    @cached_property
    def results(self) -> Results:
        """The results folder, made when something is first written."""
        return Results(self._options.results)

    def start(self) -> None:
        """Start the processes of the evaluators; returns before they are ready."""
        self._evaluators.start()

    def job(self, reference: str) -> Job:
        """The kernel of a reference, on the device of this session; a first one where its problem has none."""
        options = self._options
        model = self._proposers.choice.is_model
        task = open_problem(options, reference, self.device, model)
        if task is None:
            return find_joint_job(options, reference, self.device, self._remote, self._observer)
        evaluator = self._evaluators.pool[0].first
        if not isinstance(evaluator, LocalEvaluator):
            raise OptionError(
                f"{task.problem.id} has no kernel, and a first one is made on this machine", "use `evaluator` local"
            )
        path = self.results.first_kernel_path(task.problem, task.backend)
        writing = self._proposers.writer(path.with_suffix(".jsonl"), options.resume) if model else None
        kernel = first_kernel_of(task, evaluator, writing, path, options.resume, self._observer)
        return Job(kernel, task.problem, self.device, reference, trust=options, first=True)

    def optimize(self, job: Job) -> OptimizeResult:
        """Run the loop on one job and write its files."""
        require_timed(job)
        _ = declared_space(job.kernel, job.problem)  # a mistake in it is reported now, not after minutes of work
        self._evaluators.start()  # while the rules are imported, or the model is asked
        if not self._proposers.choice.is_model:
            threading.Thread(target=catalogue.preload, args=(TUNER,), daemon=True).start()
        transcript = self._prepare(job)
        options, criteria = self._options, self._criteria()
        path = self.results.journal_path(job.problem, job.backend)
        with Journal(path) as journal, contextlib.ExitStack() as stack:
            same_run(journal, job, self._proposers.name)
            self._observer.run_started(job, criteria, self._proposers.choice.is_model)
            stack.callback(self.results.save_conversation, job.problem, job.backend)
            stack.callback(lambda: self._memory.add(journal.records))
            gains = (
                {}
                if self._proposers.choice.is_model
                else self._memory.gains(journal, job.backend, job.label, job.problem.id)
            )
            opened = stack.enter_context(self._proposers.open(job, transcript, gains))
            workbench = Workbench(
                job.problem,
                self._evaluators.pool,
                self._evaluators.searcher,
                journal,
                self._observer,
                finalist=partial(self._evaluators.finalist, (COMPILE,) if job.beside_compile else ()),
                compilers=self._evaluators.compilers,
            )
            run = Optimization(
                workbench, job.kernel, opened.proposer, criteria, self._observer, partial(keep, journal), opened.cost
            )
            outcome = run.run()
            kernel = None
            if options.save and outcome.verified and outcome.best.speedup is not None:
                kernel = self.results.save_kernel(job.problem, job.backend, outcome.kernel, outcome.best, outcome.start)
            solution = None
            if kernel is not None:
                solution = save_solution(options.dataset, job, outcome.kernel, outcome.best, self._observer)
            history = self.results.save_history(job.problem, job.backend, outcome.turns)
            result = OptimizeResult(
                job, outcome, kernel, history, options.target_speedup, self._proposers.name, opened.spent(), solution
            )
            try:
                result = replace(result, patch=self._brought_back(job, outcome))
            finally:
                journal.append(result.record())
            return result

    def _brought_back(self, job: Job, outcome: Outcome) -> Path | None:
        """Write the result into what the user's own package reads, where that is asked for."""
        if job.function is None or not isinstance(self._options, ReturnOptions):
            return None
        if not outcome.verified or outcome.kernel.digest == job.kernel.digest:
            self._observer.note("nothing became faster, so there is nothing to bring back")
            return None
        tried = [
            evaluation
            for turn in outcome.turns
            if turn.proposal is not None and same_but_config(turn.proposal.kernel, outcome.kernel)
            for evaluation in turn.evaluations
        ]
        best = outcome.best.model_copy(update={"config": dict(outcome.kernel.config)})
        return bring_back(self._options, job, outcome.kernel, best, tried, self._observer)

    def _criteria(self) -> StoppingCriteria:
        options = self._options
        return StoppingCriteria(
            target_speedup=options.target_speedup,
            against=options.target_baseline.value,
            max_iterations=options.max_iterations or (MODEL_ITERATIONS if self._proposers.choice.is_model else None),
            min_improvement=options.min_improvement,
            beam=options.beam,
            require_replay=options.require_replay,
            budget=Budget(seconds=options.time_limit),
        )

    def _prepare(self, job: Job) -> Path:
        """Check that the model answers, and make room for a run that does not resume; the path of its transcript."""
        transcript = self.results.transcript_path(job.problem, job.backend)
        choice = self._proposers.choice
        if choice.kind is Kind.REPLAY and not self._options.resume and choice.path.resolve() == transcript.resolve():
            raise OptionError(f"`model` {choice.name} is what this run would write", "choose another `results`")
        if self._options.resume:
            self._proposers.check(job, transcript)
            return transcript
        # What an earlier run left stays where it is until the model is known to answer.
        checked = transcript.with_suffix(".check.jsonl")
        try:
            checked.unlink(missing_ok=True)
            self._proposers.check(job, checked)
            self.results.set_aside(job.problem, job.backend)
            if checked.exists():
                checked.rename(transcript)
        finally:
            checked.unlink(missing_ok=True)
        return transcript

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._evaluators.__exit__()


def keep(journal: Journal, turn: Turn) -> None:
    """Write a turn down, unless the resumed run did; a turn that was cut off and is now whole is written again."""
    record = turn.record()
    what = ("number", "lane", "attempts", "kernel", "improved")  # a resumed run spends other seconds on the same
    if all(any(getattr(known, name) != getattr(record, name) for name in what) for known in journal.of(TurnRecord)):
        journal.append(record)


def run_record(job: Job, model: str) -> RunRecord:
    """Return the identity of a run."""
    return RunRecord(
        problem=job.problem.id,
        reference=job.problem.digest,
        sizes=job.problem.sizes_key,
        kernel=job.kernel.digest,
        device=job.label,
        # Results under other rules, or with another timing, do not apply to this run.
        allow_torch=job.trust.allow_torch.value,
        graph=str(job.graph),
        precision=job.precision.value,
        against=job.against,
        backend=job.backend,
        model=model,
    )


def same_run(journal: Journal, job: Job, model: str) -> None:
    """Write the run's identity, or raise `JournalError` for the journal of another run."""
    require_same(journal, run_record(job, model))


def earlier_summary(path: Path, job: Job, target: float) -> dict[str, Any] | None:
    """The summary of the same run, if it has finished with a verified kernel and nothing cut it short; else None."""
    records = read_journal(path) if path.exists() else []
    known, last = next(of(records, RunRecord), None), next(of(reversed(records), FinishedRecord), None)
    if known is None or last is None or known.changed(run_record(job, known.model)):
        return None
    done = last.verified and last.target_speedup == target and not last.cut_short
    return last.summary() if done else None
