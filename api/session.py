"""The kernels of one command, each from start to verified end."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from ..agent.batch import TUNER
from ..agent.loop import Optimization, Outcome
from ..agent.models.choice import Kind
from ..agent.results import Results
from ..agent.stopping import StoppingCriteria
from ..agent.workbench import Workbench
from ..core import Budget, Journal, OptionError, Problem
from ..core.baselines import COMPILE, against_text
from ..core.events import Emit, Note, RunStarted, notes
from ..core.space_inference import declared_space
from ..evaluators.local import LocalEvaluator
from ..evaluators.remote.machines import Remote
from ..tuners import catalogue
from .archive import EarlierRuns
from .bring_back import NOTHING, WayBack, bring_back, same_but_config
from .evaluators import Evaluators
from .first_kernels import first_kernels_of, open_problem
from .jobs import Job, find_joint_job, require_timed
from .optimize_result import OptimizeResult, faster_first
from .options.groups import ReturnOptions
from .options.optimize import RunOptions
from .proposers import OpenProposer, Proposers
from .run_journal import keep, same_run
from .solutions import save_solution

MODEL_ITERATIONS = 5
"""Turns of a language model, each of which costs money; rules come to an end by themselves."""


class Session:
    """The shared parts of one command's kernels: evaluators, the results folder, and the proposer."""

    def __init__(
        self, options: RunOptions, device: str, evaluators: Evaluators, remote: Remote | None, emit: Emit
    ) -> None:
        self.device = device
        self._options = options
        self._remote = remote
        self._emit = emit
        self._earlier = EarlierRuns(options.results, notes(emit), options.archive)
        self._proposers = Proposers(options, emit, self._earlier)
        self._evaluators = evaluators

    @cached_property
    def results(self) -> Results:
        """The results folder, made when something is first written."""
        return Results(self._options.results)

    def job(self, reference: str) -> Job:
        """The kernel of a reference, on the device of this session; a first one where its problem has none."""
        options = self._options
        model = self._proposers.choice.is_model
        task = open_problem(options, reference, self.device, model)
        if task is None:
            return find_joint_job(options, reference, self.device, self._remote, self._emit)
        evaluator = self._evaluators.pool[0].first
        if not isinstance(evaluator, LocalEvaluator):
            raise OptionError(
                f"{task.problem.id} has no kernel, and a first one is made on this machine", "use `evaluator` local"
            )
        writing = self._proposers.writer(self._prepare(task.problem, task.backend)) if model else None
        path = self.results.first_kernel_path(task.problem, task.backend)
        start, *others = first_kernels_of(task, evaluator, writing, path, options.resume, self._emit)
        return Job(start, task.problem, self.device, reference, trust=options, first=True, others=tuple(others))

    def optimize(self, job: Job) -> OptimizeResult:
        """Run the loop on one job and write its files."""
        require_timed(job)
        _ = declared_space(job.kernel, job.problem)  # a mistake in it is reported now, not after minutes of work
        if not self._proposers.choice.is_model:
            threading.Thread(target=catalogue.preload, args=(TUNER,), daemon=True).start()
        written = job.first and self._proposers.choice.is_model  # then its transcript has begun
        transcript = (self.results.transcript_path if written else self._prepare)(job.problem, job.backend)
        path, criteria = self.results.journal_path(job.problem, job.backend), self._criteria()
        own = not self._options.resume or self.results.resumes_own(job.problem, job.backend)
        with Journal(path, own) as journal, contextlib.ExitStack() as stack:
            same_run(journal, job, self._proposers.name)
            self._emit(self._started(job, criteria))
            stack.callback(self.results.save_conversation, job.problem, job.backend)
            stack.callback(self._earlier.add, journal)
            gains = self._earlier.gains(journal, job) if not self._proposers.choice.is_model else {}
            opened = stack.enter_context(self._proposers.open(job, transcript, gains))
            outcome = self._run(job, journal, opened, criteria)
            result = self._saved(job, outcome, path, opened.spent())
            try:
                result = replace(result, patch=self._brought_back(job, outcome))
            finally:
                journal.append(result.record())
            return result

    def _started(self, job: Job, criteria: StoppingCriteria) -> RunStarted:
        return RunStarted(
            problem=job.problem.id,
            backend=job.backend,
            workload=job.problem.workload,
            device=job.device,
            target_speedup=criteria.target_speedup,
            against=against_text(job.against, job.precision),
            beam=criteria.beam,
            max_iterations=criteria.max_iterations,
            by_model=self._proposers.choice.is_model,
        )

    def _run(self, job: Job, journal: Journal, opened: OpenProposer, criteria: StoppingCriteria) -> Outcome:
        """Run the loop."""
        workbench = Workbench(
            job.problem,
            self._evaluators.pool,
            self._evaluators.searcher,
            journal,
            self._emit,
            judge=partial(self._evaluators.judge, (COMPILE,) if job.beside_compile else ()),
            clock=self._evaluators.clock,
            compilers=self._evaluators.compilers,
        )
        return Optimization(
            workbench,
            job.kernel,
            opened.proposer,
            criteria,
            self._emit,
            partial(keep, journal),
            opened.cost,
            clock=self._evaluators.clock,
            others=job.others,
        ).run()

    def _saved(self, job: Job, outcome: Outcome, journal: Path, spent: Budget) -> OptimizeResult:
        """Write the kernel, where it is faster than what was there, and the history."""
        options, kernel, solution = self._options, None, None
        if options.save and (outcome.faster or faster_first(job, outcome)):
            kernel = self.results.save_kernel(job.problem, job.backend, outcome.kernel, outcome.best, outcome.start)
            solution = save_solution(options.dataset, job, outcome.kernel, outcome.best, self._emit)
        history = self.results.save_history(job.problem, job.backend, outcome.turns)
        target, model = options.target_speedup, self._proposers.name
        return OptimizeResult(job, outcome, kernel, history, journal, target, model, spent, solution)

    def _brought_back(self, job: Job, outcome: Outcome) -> Path | None:
        """Write the result into what the user's own package reads, where that is asked for."""
        if job.function is None or not isinstance(self._options, ReturnOptions):
            return None
        if not outcome.verified:
            self._emit(Note(NOTHING))
            return None
        from .patches import worthwhile  # with it comes libcst
        from .workload_keys import workload_keys

        tried = [
            evaluation
            for turn in outcome.turns
            if turn.proposal is not None and same_but_config(turn.proposal.kernel, outcome.kernel)
            for evaluation in turn.evaluations
        ]
        best = outcome.best.model_copy(update={"config": dict(outcome.kernel.config)})
        configs = worthwhile(best, tried, workload_keys(job.function, job.problem))
        return bring_back(
            WayBack(self._options.patch, self._options.triton_cache),
            job,
            outcome.kernel,
            best,
            configs,
            tried,
            self._emit,
        )

    def _criteria(self) -> StoppingCriteria:
        options = self._options
        return StoppingCriteria(
            target_speedup=options.target_speedup,
            against=options.target_baseline.value,
            max_iterations=options.max_iterations or (MODEL_ITERATIONS if self._proposers.choice.is_model else None),
            min_improvement=options.min_improvement,
            beam=options.beam,
            budget=Budget(trials=options.max_trials, seconds=options.time_limit),
        )

    def _prepare(self, problem: Problem, backend: str) -> Path:
        """Check that the model answers, and make room for a run that does not resume; the path of its transcript."""
        transcript = self.results.transcript_path(problem, backend)
        choice = self._proposers.choice
        if choice.kind is Kind.REPLAY and not self._options.resume and choice.path.resolve() == transcript.resolve():
            raise OptionError(f"`model` {choice.name} is what this run would write", "choose another `results`")
        if self._options.resume:
            self._proposers.check(backend, transcript)
            return transcript
        # What an earlier run left stays where it is until the model is known to answer.
        checked = transcript.with_suffix(".check.jsonl")
        try:
            checked.unlink(missing_ok=True)
            self._proposers.check(backend, checked)
            self.results.set_aside(problem, backend)
            if checked.exists():
                checked.rename(transcript)
        finally:
            checked.unlink(missing_ok=True)
        return transcript
