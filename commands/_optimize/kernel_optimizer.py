"""Optimizes the kernels of one command, each up to its verified result."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from ...agent.batch import TUNER
from ...agent.loop import Optimization, Outcome
from ...agent.models.choice import Kind
from ...agent.results import Results
from ...agent.stopping import TARGET, StoppingCriteria
from ...agent.workbench import Workbench
from ...core import Budget, Config, Evaluation, JointProblem, Journal, OptionError, Problem
from ...core.baselines import COMPILE, against_text
from ...core.events import Emit, Note, RunStarted, notes
from ...core.space_inference import declared_space
from ...corpus.functions.triton_cache import workload_keys
from ...evaluators.local import LocalEvaluator
from ...runtime.archive import EarlierRuns
from ...runtime.evaluators import Evaluators
from ...runtime.first_kernels import first_kernels_of
from ...runtime.jobs import Job, keep, require_timed, run_record, same_run
from ...runtime.proposers import OpenProposer, Proposers
from ...runtime.write_result import NOTHING, same_but_config, save_solution, select_autotune_configs, write_result
from ...tuners import catalogue
from .by_size import SizedKernel, of_rule, write_by_size
from .result import Result, faster_first
from .settings import SessionSettings


class KernelOptimizer:
    """Holds what the kernels of one command share: evaluators, the results folder and the proposer."""

    def __init__(self, settings: SessionSettings, evaluators: Evaluators, emit: Emit) -> None:
        self.device = settings.device
        self._settings = settings
        self._emit = emit
        self._earlier = EarlierRuns(settings.results, notes(emit), settings.archive)
        self._proposers = Proposers(settings.proposer, emit, self._earlier)
        self._evaluators = evaluators

    @cached_property
    def results(self) -> Results:
        """The results folder, made when something is first written."""
        return Results(self._settings.results)

    def job(self, reference: str) -> Job:
        """Return the job of a reference. If its problem has no kernel, a first one is made.

        A resumed run is that of this kernel, even if another kernel for the problem has been optimized since.
        """
        job = self._found(reference)
        if self._settings.resume:
            self.results.bring_back(job.problem, job.backend, run_record(job, self._proposers.name))
        return job

    def _found(self, reference: str) -> Job:
        settings, model = self._settings, self._proposers.choice.is_model
        task = settings.find_open(reference)
        if task is None:
            return settings.find_job(reference)
        evaluator = self._evaluators.pool[0].first
        if not isinstance(evaluator, LocalEvaluator):
            raise OptionError(
                f"{task.problem.id} has no kernel, and a first one is made on this machine", "use `evaluator` local"
            )
        writing = self._proposers.writer(self._prepare(task.problem, task.backend)) if model else None
        path = self.results.first_kernel_path(task.problem, task.backend)
        start, *others = first_kernels_of(task, evaluator, writing, path, settings.resume, self._emit)
        judged = settings.conditions
        return Job(start, task.problem, self.device, reference, conditions=judged, first=True, others=tuple(others))

    def target(self, job: Job) -> float | None:
        """Return the requested target speedup; by default `TARGET`, or none for a module.

        A module's result replaces torch.compile's code, so its run ends when nothing is left to gain.
        """
        requested = self._settings.criteria.target_speedup
        return TARGET if requested is None and not job.first else requested

    def optimize(self, job: Job) -> Result:
        """Run the loop on one job and write its files."""
        require_timed(job)
        _ = declared_space(job.kernel, job.problem)  # errors in it are reported now, not after minutes of work
        if not self._proposers.choice.is_model:
            threading.Thread(target=catalogue.preload, args=(TUNER,), daemon=True).start()
        written = job.first and self._proposers.choice.is_model  # then its transcript has begun
        transcript = (self.results.transcript_path if written else self._prepare)(job.problem, job.backend)
        path = self.results.journal_path(job.problem, job.backend)
        criteria = replace(self._settings.criteria, target_speedup=self.target(job))
        own = not self._settings.resume or self.results.resumes_own(job.problem, job.backend)
        with Journal(path, own) as journal, contextlib.ExitStack() as stack:
            same_run(journal, run_record(job, self._proposers.name))
            self._emit(self._started(job, criteria))
            stack.callback(self.results.save_conversation, job.problem, job.backend)
            stack.callback(self._earlier.add, journal)
            gains = self._earlier.gains(journal, job) if not self._proposers.choice.is_model else {}
            opened = stack.enter_context(self._proposers.open(job, transcript, gains))
            outcome = self._run(job, journal, opened, criteria)
            result = self._saved(job, outcome, path, opened.spent())
            try:
                result = result.model_copy(update={"patch": self._brought_back(job, outcome, result.by_size)})
            finally:
                journal.append(result.finished)
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

    def _saved(self, job: Job, outcome: Outcome, journal: Path, spent: Budget) -> Result:
        """Write the history, and the kernel if it is faster than the start."""
        settings, kernel, solution = self._settings, None, None
        if settings.save and (outcome.faster or faster_first(job, outcome)):
            kernel = self.results.save_kernel(job.problem, job.backend, outcome.kernel, outcome.best, outcome.start)
            solution = save_solution(settings.dataset, job, outcome.kernel, outcome.best, self._emit)
        history = self.results.save_history(job.problem, job.backend, outcome.turns)
        rule, by_size = self._by_size(job, outcome) if settings.save and outcome.verified else (None, ())
        target, model = self.target(job), self._proposers.name
        return Result(
            job=job,
            outcome=outcome,
            kernel=kernel,
            history=history,
            journal=journal,
            target=target,
            model=model,
            spent=spent,
            solution=solution,
            rule=rule,
            by_size=by_size,
        )

    def _by_size(self, job: Job, outcome: Outcome) -> tuple[Path | None, tuple[SizedKernel, ...]]:
        """If a size is free, write the kernels of its range, and the rule that chooses among them."""
        if not isinstance(job.problem, JointProblem) or job.problem.free is None:
            return None, ()
        folder = self.results.root / "dynamic" / f"{job.problem.name}_{job.backend}"
        judge = self._evaluators.judge((), self._evaluators.pool[0])
        return write_by_size(folder, job.problem, outcome, job.kernel, _tried(outcome), judge, self._emit)

    def _brought_back(self, job: Job, outcome: Outcome, by_size: Sequence[SizedKernel]) -> Path | None:
        """Write the result as a patch or into Triton's cache, if requested; for a range with the rule's configs."""
        way = self._settings.destination
        if job.function is None:
            return None
        if not outcome.verified:
            self._emit(Note(NOTHING))
            return None

        compared = tried = _tried(outcome)
        kernel = outcome.kernel
        best = outcome.best.model_copy(update={"config": dict(kernel.config)})
        if isinstance(job.problem, JointProblem) and job.problem.free is not None:
            best, *compared = of_rule(best, tried, by_size if outcome.faster else ())
            kernel = kernel.bind(Config(best.config))
        keys = workload_keys(job.function, job.problem)
        configs = select_autotune_configs(best, compared, keys)
        evaluator = self._evaluators.searcher(self._evaluators.pool[0])
        return write_result(way, job, kernel, best, configs, tried, evaluator, self._emit, compared, keys)

    def _prepare(self, problem: Problem, backend: str) -> Path:
        """Check that the model answers, and make room for a run that does not resume; the path of its transcript."""
        transcript = self.results.transcript_path(problem, backend)
        choice = self._proposers.choice
        if choice.kind is Kind.REPLAY and not self._settings.resume and choice.path.resolve() == transcript.resolve():
            raise OptionError(f"`model` {choice.name} is what this run would write", "choose another `results`")
        if self._settings.resume:
            self._proposers.check(backend, transcript)
            return transcript
        # Files of an earlier run stay in place until the model has answered.
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


def _tried(outcome: Outcome) -> list[Evaluation]:
    """Return all evaluations of the best kernel's code."""
    return [
        evaluation.model_copy(update={"config": {**turn.proposal.kernel.config, **evaluation.config}})
        for turn in outcome.turns
        if turn.proposal is not None and same_but_config(turn.proposal.kernel, outcome.kernel)
        for evaluation in turn.evaluations
    ]
