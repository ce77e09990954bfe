"""`kernelwright evaluate`: one kernel, or all of a KernelBench run folder, by one protocol or both."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from rich.markup import escape

from ..core import DEFAULT_WORKLOAD, Config, KernelError, TorchProblem
from ..corpus import find_problem
from ..evaluators.kernelbench.evaluator import KernelBench, KernelBenchSettings
from ..evaluators.kernelbench.precision import Precision
from ..evaluators.kernelbench.result import THRESHOLDS, KernelBenchResult, fast_p
from ..evaluators.kernelbench.run_folder import RunFolder, Sample
from ..evaluators.local import LocalEvaluator
from ..evaluators.remote.machines import Remote
from . import wiring
from .comparison import ProtocolVerdicts, comparison_table, describe_fast_p
from .protocols import PERF_TRIALS, ProtocolOptions
from .render import Screen, describe_evaluation
from .request import Request

INLINE = "cuda"
"""KernelBench's name for sources that are neither Triton nor TileLang."""


@dataclass(frozen=True)
class _Subject:
    """What is to be evaluated: a kernel, or a file that is none, which only KernelBench has a verdict for."""

    problem: TorchProblem
    source: str
    job: wiring.Job | None
    refusal: str = ""

    @property
    def backend(self) -> str:
        return self.job.kernel.language.value if self.job else INLINE


def run_evaluate(request: Request, options: ProtocolOptions) -> int:
    """Evaluate; 0 when every kernel is right by every protocol that was asked for."""
    options.check(request)
    with request.machines.joined(request.device) as remote:
        if remote is not None:
            return _evaluate_there(request, remote)
    device = wiring.choose_device(request)
    screen = Screen(request)
    with wiring.evaluator(device, trust=request.trust) as evaluator:
        command = _Command(request, options, device, screen, evaluator)
        return command.one(request.kernel) if request.kernel is not None else command.folder()


def _evaluate_there(request: Request, remote: Remote) -> int:
    """One kernel by the strict protocol, on other machines."""
    assert request.kernel is not None
    job = wiring.job(request, request.kernel, wiring.choose_device(request, remote), remote)
    screen = Screen(request)
    with screen.working(f"evaluating {job.problem.id} on {job.where}"):
        evaluator = wiring.remote_evaluator(remote, trust=request.trust)
        (evaluation,) = evaluator.evaluate(job.problem, job.kernel, [Config()])
    judged = ProtocolVerdicts(job.problem.id, job.problem.workload, evaluation, "", None)
    if request.json:
        print(json.dumps(judged.record()), file=sys.stdout)
    else:
        screen.print(describe_evaluation(job, evaluation))
    return 0 if judged.right else 1


class _Command:
    """What both forms of the command share."""

    def __init__(
        self, request: Request, options: ProtocolOptions, device: str, screen: Screen, evaluator: LocalEvaluator
    ) -> None:
        self.request, self.options, self.device = request, options, device
        self.screen, self.evaluator = screen, evaluator
        precision, trials = options.precision or Precision.FP32, options.perf_trials or PERF_TRIALS
        settings = KernelBenchSettings(precision=precision, perf_trials=trials)
        self.kernelbench = KernelBench(evaluator.processes, settings)

    def one(self, reference: str) -> int:
        """One kernel."""
        job = wiring.job(self.request, reference, self.device)
        subject = _Subject(job.problem, job.kernel.source, job)
        folder = RunFolder(self.options.run_folder) if self.options.run_folder else None
        sample = Sample.of(job.problem, self.options.sample_id or 0) if folder else None
        if folder and sample:
            folder.check(sample)
        with self.screen.working(f"evaluating {job.problem.id} on {self.device}"):
            judged = self._judge(subject)
        if folder and sample and judged.result:
            folder.add(sample, job.problem, subject.source, judged.result)
        if self.request.json:
            print(json.dumps(judged.record()), file=sys.stdout)
            return 0 if judged.right else 1
        if judged.evaluation is not None:
            self.screen.print(describe_evaluation(job, judged.evaluation))
        if judged.result is not None:
            self.screen.print(comparison_table([judged]))
            self._explain(judged)
        return 0 if judged.right else 1

    def folder(self) -> int:
        """Every kernel of the run folder that has no result yet."""
        assert self.options.run_folder is not None
        folder = RunFolder(self.options.run_folder)
        samples = folder.samples()
        # A wrong --dataset should not show after an hour.
        problems = {sample.problem_id: find_problem(sample.problem_id, self.request.dataset) for sample in samples}
        everything: list[ProtocolVerdicts] = []
        with self.screen.progress("evaluating", len(samples)) as step:
            for sample in samples:
                # Another command may be working on the same folder.
                if not folder.has(sample):
                    subject = self._subject(folder.kernel(sample), problems[sample.problem_id].read())
                    judged = self._judge(subject)
                    assert judged.result is not None
                    folder.store(sample, subject.problem, judged.result)
                    everything.append(judged)
                step(sample.file_name)
        speedups = folder.speedups(self.options.sample_id or 0)
        if self.request.json:
            shares = {str(p): fast_p(list(speedups.values()), p) for p in THRESHOLDS}
            found = {"results": [one.record() for one in everything], "problems": len(speedups), "fast_p": shares}
            print(json.dumps(found), file=sys.stdout)
        else:
            if everything:
                self.screen.print(comparison_table(everything))
            for judged in everything:
                self._explain(judged)
            self.screen.print(describe_fast_p(speedups))
        return 0 if all(one.right for one in everything) else 1

    def _subject(self, path: Path, problem: TorchProblem) -> _Subject:
        request = replace(self.request, problem=problem.id)
        try:
            job = wiring.job(request, str(path), self.device)
        except KernelError as error:
            source = path.read_text(errors="replace")
            return _Subject(problem.at(request.workload or DEFAULT_WORKLOAD), source, None, str(error))
        return _Subject(job.problem, job.kernel.source, job)

    def _judge(self, subject: _Subject) -> ProtocolVerdicts:
        evaluation, refusal = None, subject.refusal if self.options.strict else ""
        if self.options.strict and subject.job is not None:
            job = subject.job
            evaluation = next(iter(self.evaluator.evaluate(job.problem, job.kernel, [Config()])))
        result: KernelBenchResult | None = None
        if self.options.kernelbench:
            result = self.kernelbench.evaluate(subject.problem, subject.source, subject.backend)
        return ProtocolVerdicts(subject.problem.id, subject.problem.workload, evaluation, refusal, result)

    def _explain(self, judged: ProtocolVerdicts) -> None:
        """Lines beneath the table."""
        if judged.result is not None and judged.result.reason:
            self.screen.print(f"{escape(judged.problem)}, kernelbench: {escape(judged.result.reason)}")
        if judged.refusal:
            self.screen.print(f"{escape(judged.problem)}, strict: {escape(judged.refusal)}")
        if judged.remark:
            self.screen.print(f"{escape(judged.problem)}: {escape(judged.remark)}")
