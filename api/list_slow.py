"""`list_slow`: kernels ranked by measured speedup, the slowest first, and problems without one by their headroom.

The kernels are the shipped ones, a folder's, or the Solutions of a dataset of recorded workloads.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

from ..agent.analysis import performance_category
from ..core import Config, KernelError, KernelwrightError, Target
from ..core.events import Emit, progress
from ..core.files import cache_folder
from ..corpus import find_problem, list_kernel_files, list_kernels, list_problems
from ..corpus.recorded import is_trace_dataset, list_solutions
from ..evaluators.local import LocalEvaluator
from .devices import choose_device
from .evaluators import local_evaluator
from .jobs import Job, choose_backend, find_job
from .list_slow_problems import SlowProblem, measure_problems, problems_without
from .options.optimize import ListSlowOptions
from .options.trust import Baseline
from .speedup_records import Records, problem_key

DISTURBED = "DISTURBED"


@dataclass(frozen=True)
class SlowKernel:
    """A kernel and its measured speedup. Times are medians of one call, in milliseconds."""

    speedup: float
    """Over the reference, which `precision` chooses."""
    category: str
    """SLOW, MODERATE, GOOD, or DISTURBED: measured beside other processes, so that its speedup may be any."""
    kernel: str
    """`level2/2_10.py`."""
    latency_ms: float
    reference_ms: float
    problem: str
    workload: str
    device: str
    contention: float | None
    """Cores that other processes used meanwhile, where that makes the speedup unreliable."""
    speedup_default: float | None
    """Over eager PyTorch with its own defaults; on a CPU the same as `speedup`."""
    precision: str
    """How exactly the reference computed: fp32, or default."""

    def record(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Listing:
    """The measured kernels, and those that could not be measured."""

    slow: tuple[SlowKernel, ...]
    """Those below the threshold, and those whose timing was disturbed, which may be; the slowest first."""
    measured: int
    """How many kernels."""
    failed: tuple[str, ...]
    """Kernels that are not correct or could not be evaluated, with the reason."""
    skipped: tuple[str, ...]
    """Kernels without a problem in the dataset, with the reason."""
    disturbed: tuple[SlowKernel, ...]
    """Those whose timing other processes disturbed."""
    problems: tuple[SlowProblem, ...] = ()
    """The dataset's problems without a kernel, those with the most headroom first."""


def run_list_slow(options: ListSlowOptions, emit: Emit) -> Listing:
    """Measure what has no current record, each written down at once, and rank kernels and problems."""
    device = choose_device(options)
    jobs, skipped = _jobs(options, device)
    open_problems = problems_without({job.problem.id for job in jobs}, options)
    rows: list[SlowKernel] = []
    problems: list[SlowProblem] = []
    failed: list[str] = []
    total = len(jobs) + len(open_problems)
    with (
        Records(cache_folder() / "speedups.jsonl") as records,
        progress(emit, "measuring", total) as advance,
        contextlib.ExitStack() as stack,
    ):
        if jobs:
            evaluator = stack.enter_context(local_evaluator(device, options))
        for job in jobs:
            row = _row(job, evaluator, records, options)
            if isinstance(row, str):
                failed.append(f"{job.problem.id}: {row}")
                advance(f"{job.problem.id} failed")
            else:
                rows.append(row)
                advance(f"{job.problem.id} {row.speedup:.3f}x")
        stack.close()
        if open_problems:
            compiled = replace(options, baseline=(*options.baseline, Baseline.COMPILE))
            evaluator = stack.enter_context(local_evaluator(device, compiled))
            for found in measure_problems(open_problems, options, device, evaluator, records, advance):
                if isinstance(found, str):
                    failed.append(found)
                else:
                    problems.append(found)
    # What others disturbed may be any time: a reference that waited made 9.7x of a true 0.47x.
    listed = [row for row in rows if row.speedup < options.threshold or row.contention is not None]
    slow = sorted(listed, key=lambda row: (row.contention is not None, row.speedup))
    return Listing(
        tuple(slow),
        len(rows),
        tuple(failed),
        tuple(skipped),
        tuple(row for row in rows if row.contention is not None),
        tuple(sorted(problems, key=lambda row: -row.headroom)),
    )


def _jobs(options: ListSlowOptions, device: str) -> tuple[list[Job], list[str]]:
    jobs: list[Job] = []
    skipped: list[str] = []
    elsewhere = 0
    for reference, problem in _references(options, device, skipped):
        try:
            job = find_job(options, reference, device)
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


def _references(options: ListSlowOptions, device: str, skipped: list[str]) -> list[tuple[str, str]]:
    """Return the kernels to list, each with what it is called where it cannot be used."""
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


def _row(job: Job, evaluator: LocalEvaluator, records: Records, options: ListSlowOptions) -> SlowKernel | str:
    """A kernel's row, from its record or from a measurement; or why there is none."""
    key = {
        **problem_key(job.problem, job.device, options),
        **{package: version(package) for package in job.kernel.language.packages},
        "kernel": job.kernel.digest,
        "allow_torch": job.trust.allow_torch.value,
    }
    known = records.find_or_measure(key, options, lambda: _measured(job, evaluator))
    if isinstance(known, str):
        return known
    shipped = options.folder is None and job.reference.endswith(".py")
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
    if evaluation.speedup is None or not evaluation.ok:
        told = str(evaluation.rejection or evaluation.message)
        raise KernelError(f"{evaluation.status}: {(told.splitlines() or [''])[0]}")
    return evaluation.metrics().to_json(), evaluation.environment
