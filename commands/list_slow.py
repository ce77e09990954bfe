"""Rank kernels by measured speedup, the slowest first; with a dataset also problems without one, by their headroom.

Kernels with a current record are not measured again. Exit codes: 0 listed, 1 some could not be measured, 2 wrong usage.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from ..agent.bottleneck import performance_category
from ..core import Config, DeviceError, KernelError, KernelwrightError, Target
from ..core.events import Emit, progress
from ..core.files import cache_folder
from ..corpus import find_problem, list_kernel_files, list_kernels, list_problems
from ..corpus.recorded import is_trace_dataset, list_solutions
from ..evaluators.local import LocalEvaluator
from ..runtime import command, result
from ..runtime.jobs import Job, at_workload, choose_backend
from ..runtime.options.groups import ProblemOptions
from ..runtime.options.option import option
from ..runtime.options.trust import Baseline, TimingOptions
from ..runtime.result import busy
from ..runtime.runtime import OpenLocal, Runtime
from ._list_slow import (
    DISTURBED,
    Metrics,
    Records,
    SlowKernel,
    SlowProblem,
    problem_key,
    problem_row,
    problem_table,
    problems_without,
    recorded_problems,
    render_slow,
    slow_table,
    with_shares,
)

EXAMPLES = ("list-slow --dataset ~/KernelBench",)
TO_STDERR = True
AGENTS = ("threshold", "folder", "problem", "backend")
Row = TypeVar("Row", SlowKernel, SlowProblem)


@dataclass(frozen=True, kw_only=True)
class Options(TimingOptions, ProblemOptions):
    """Measure kernels and rank them, the slowest first; with a `dataset` also its problems without a kernel."""

    threshold: float = option(0.8, "Speedup below which a kernel is listed.", above=0)
    folder: Path | None = option(
        None,
        "With `list_slow`: list the kernels in this folder and those below it, not the shipped ones. A results folder "
        "has optimized ones.",
        metavar="DIR",
    )
    recorded: Path | None = option(
        None,
        "Optimize the regions that a model's run wrote to this folder (KERNELWRIGHT_RECORD), within `time_limit`; with "
        "`list_slow` list them, by share of the step times headroom.",
        metavar="DIR",
        trusted=True,
    )
    resume: bool = option(False, "Continue where an earlier run stopped.", trusted=True)
    again: bool = option(False, "Measure again what other processes disturbed, instead of showing the flagged record.")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The kernels to list, and the problems without one."""

    device: str
    threshold: float
    jobs: list[Job]
    problems: list[Any] = field(metadata=command.NOT_SHOWN)
    """Files of problems without a kernel."""
    skipped: list[str]
    """Kernels that cannot be listed, with reasons."""
    shipped: bool
    """Whether shipped kernels are listed, which have the names of their problems."""
    workload: str | None
    recorded: Path | None
    resume: bool
    again: bool
    timing: TimingOptions = field(metadata=command.NOT_SHOWN)
    open_evaluator: OpenLocal = field(metadata=command.NOT_SHOWN)
    open_compiling: OpenLocal = field(metadata=command.NOT_SHOWN)
    """Opens an evaluator that also times torch.compile."""


class Result(result.Result):
    """Kernels by measured speedup, and problems without one. Times are medians of one call, in milliseconds."""

    slow: tuple[SlowKernel, ...]
    """Kernels below the threshold or with disturbed timing, the slowest first."""
    measured: int
    """Number of kernels that were measured or had a current record."""
    failed: tuple[str, ...]
    """Kernels that are wrong or could not be evaluated, with reasons."""
    skipped: tuple[str, ...]
    """Kernels without a problem, or that the device cannot time, with reasons."""
    disturbed: result.ForPython[tuple[SlowKernel, ...]]
    """Kernels whose timing other processes disturbed."""
    problems: tuple[SlowProblem, ...] = ()
    """Problems of the dataset without a kernel, the one with the most headroom first; or recorded regions."""
    threshold: result.ForPython[float] = 0.8
    again: result.ForPython[bool] = False
    """Whether disturbed records were measured again."""

    @property
    def exit_code(self) -> int:
        """1 if a kernel failed, or there was none."""
        return 1 if self.failed or not (self.measured or self.problems) else 0

    @property
    def doubts(self) -> list[str]:
        """Remarks on rows that other processes disturbed."""
        found = [f"{row.kernel}: {busy(row.contention)}" for row in self.disturbed if row.contention is not None]
        return found + [f"{row.problem}: {busy(row.contention)}" for row in self.problems if row.contention is not None]

    @property
    def warnings(self) -> list[str]:
        """Remarks on kernels that are not listed, and on unreliable rows."""
        kept = ["their flagged records are kept; `again` measures them again"] if not self.again else []
        return [*self.skipped, *self.failed, *self.doubts, *(kept if self.doubts else [])]

    @property
    def next_step(self) -> str:
        """The next step for an agent."""
        return "profile the first one for its bottleneck" if self.slow else "none is slower than the threshold"

    def lines(self) -> Iterator[Any]:
        """Tables on a terminal, otherwise one line per row."""
        if not sys.stdout.isatty():
            yield from self.render("plain").splitlines()
            return
        if self.measured or not self.problems:
            yield slow_table(self.slow, self.measured, self.threshold)
        if self.problems:
            yield problem_table(self.problems)

    def render(self, form: str) -> str:
        """Format the rows for a pipe: plain, json or csv."""
        return render_slow(self.slow, form, self.problems)


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the kernels, and the problems without one."""
    device = runtime.device(options)
    if options.recorded is None:
        jobs, skipped = _jobs(options, device, runtime)
        known = {job.problem.id for job in jobs}
        problems = problems_without(known, options.problem, options.dataset, options.folder)
    else:
        jobs, skipped, problems = [], [], recorded_problems(options.recorded)
    compiled = replace(options, baseline=(*options.baseline, Baseline.COMPILE))
    return Plan.of(
        options,
        device=device,
        jobs=jobs,
        problems=problems,
        skipped=skipped,
        shipped=options.folder is None,
        timing=options,
        open_evaluator=runtime.local_evaluator(device, options),
        open_compiling=runtime.local_evaluator(device, compiled),
    )


def run(plan: Plan, emit: Emit) -> Result:
    """Measure kernels and problems without a current record, store each record at once, and rank them."""
    failed: list[str] = []
    target, timing = Target.of_device(plan.device), plan.timing
    with (
        Records(cache_folder() / "speedups.jsonl") as records,
        progress(emit, "measuring", len(plan.jobs) + len(plan.problems)) as advance,
        contextlib.ExitStack() as stack,
    ):
        known = partial(records.find_or_measure, resume=plan.resume, again=plan.again)

        def rows_of(items: Iterable[tuple[str, Any]], row_of: Callable[[Any], Row]) -> list[Row]:
            """Return the rows of kernels that can be measured; a failure affects only its own row."""
            found = []
            for name, item in items:
                try:
                    found.append(row := row_of(item))
                except KernelwrightError as error:
                    failed.append(f"{name}: {error}")
                    advance(f"{name} failed")
                else:
                    advance(f"{name} {row.in_words}")
            return found

        def row_of_problem(file: Any) -> SlowProblem:
            problem = at_workload(file.read(), target, plan.device, plan.workload)
            return problem_row(problem, problem_key(problem, plan.device, timing), evaluator, known)

        if plan.jobs:
            evaluator = stack.enter_context(plan.open_evaluator())
        rows = rows_of([(job.problem.id, job) for job in plan.jobs], lambda job: _row(job, evaluator, known, plan))
        stack.close()
        if plan.problems:
            evaluator = stack.enter_context(plan.open_compiling())
        problems = rows_of([(file.id, file) for file in plan.problems], row_of_problem)
    ranked = sorted(problems, key=lambda row: -row.headroom)
    if plan.recorded is not None:
        ranked = with_shares(problems, plan.problems)
    # A disturbed time may be arbitrarily wrong: a reference that waited turned a true 0.47x into 9.7x.
    listed = [row for row in rows if row.speedup < plan.threshold or row.contention is not None]
    return Result(
        slow=tuple(sorted(listed, key=lambda row: (row.contention is not None, row.speedup))),
        measured=len(rows),
        failed=tuple(failed),
        skipped=tuple(plan.skipped),
        disturbed=tuple(row for row in rows if row.contention is not None),
        problems=tuple(ranked),
        threshold=plan.threshold,
        again=plan.again,
    )


def _jobs(options: Options, device: str, runtime: Runtime) -> tuple[list[Job], list[str]]:
    jobs: list[Job] = []
    skipped: list[str] = []
    elsewhere = 0
    for reference, problem in _references(options, device, skipped):
        try:
            job = runtime.job(options, reference, device)
        except KernelwrightError as error:
            skipped.append(f"{problem}: {error}")
            continue
        if job.kernel.target is Target.of_device(device):
            jobs.append(job)
        else:
            elsewhere += 1
    if elsewhere:
        skipped.append(f"{elsewhere} kernels can be checked on this device but not timed")
    return jobs, skipped


def _references(options: Options, device: str, skipped: list[str]) -> list[tuple[str, str]]:
    """Return the kernels to list, each with its name for `skipped`."""
    backend = choose_backend(options, device)
    if options.folder is not None:
        return [(str(path), str(path)) for path in list_kernel_files(options.folder)]
    if options.dataset is not None and is_trace_dataset(options.dataset):
        return [(item.solution.name, item.solution.name) for item in list_solutions(options.dataset, backend)]
    files = list_kernels(backend)
    if options.problem is not None:
        only = find_problem(options.problem, options.dataset).id
        return [(str(file.path), file.problem) for file in files if file.problem == only]
    offered = {problem.id for problem in list_problems(options.dataset)}
    here = [file for file in files if file.problem in offered]
    if len(here) < len(files):
        skipped.append(
            f"{len(files) - len(here)} shipped kernels are for problems that {options.dataset} does not have"
        )
    return [(str(file.path), file.problem) for file in here]


def _row(job: Job, evaluator: LocalEvaluator, find_or_measure: Callable[..., Metrics], plan: Plan) -> SlowKernel:
    """A kernel's row, from its record or from a measurement."""
    key = {
        **problem_key(job.problem, job.device, plan.timing),
        **{package: version(package) for package in job.kernel.language.packages},
        "kernel": job.kernel.digest,
        "allow_torch": job.allow_torch.value,
    }
    known = find_or_measure(key, lambda: _measured(job, evaluator))
    shipped = plan.shipped and job.reference.endswith(".py")
    return SlowKernel(
        speedup=known["speedup"],
        category=DISTURBED if known.get("contention") is not None else performance_category(known["speedup"]),
        kernel=f"{job.problem.id}.py" if shipped else job.reference,
        latency_ms=known["latency_ms"],
        reference_ms=known["reference_ms"],
        problem=job.problem.name,
        workload=job.problem.workload,
        device=key["device"],
        contention=known.get("contention"),
        speedup_default=known["speedup_default"],
        precision=job.precision.value,
    )


def _measured(job: Job, evaluator: LocalEvaluator) -> tuple[dict[str, Any], dict[str, str]]:
    (evaluation,) = evaluator.evaluate(job.problem, job.kernel, [Config()])
    if not evaluation.measured:
        raise DeviceError(evaluation.message)
    if evaluation.speedup is None or not evaluation.ok:
        text = str(evaluation.rejection or evaluation.message)
        raise KernelError(f"{evaluation.status}: {(text.splitlines() or [''])[0]}")
    return evaluation.metrics().to_json(), evaluation.environment
