"""`list_slow`: the shipped kernels ranked by measured speedup, the slowest first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..agent.analysis import performance_category
from ..core import Config, Evaluation, KernelwrightError
from ..core.files import memory_folder
from ..core.json_lines import JsonLines
from ..corpus import list_kernels, list_problems
from ..evaluators.local import LocalEvaluator
from .devices import choose_device, device_label
from .evaluators import local_evaluator
from .jobs import Job, choose_backend, find_job
from .observers import Observer
from .options.optimize import ListSlowOptions


@dataclass(frozen=True)
class SlowKernel:
    """A kernel and its measured speedup. Times are medians of one call, in milliseconds."""

    speedup: float
    """Over the reference, which `precision` chooses."""
    category: str
    """SLOW, MODERATE or GOOD."""
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
    """Those below the threshold, the slowest first."""
    measured: int
    failed: tuple[str, ...]
    """Kernels that are not correct or could not be evaluated, with the reason."""
    skipped: tuple[str, ...]
    """Kernels without a problem in the dataset, with the reason."""
    disturbed: tuple[SlowKernel, ...]
    """Those whose timing other processes disturbed."""


def run_list_slow(options: ListSlowOptions, observer: Observer) -> Listing:
    """Measure what has no current record, each written down at once, and rank the kernels."""
    device = choose_device(options)
    jobs, skipped = _jobs(options, device)
    rows: list[SlowKernel] = []
    failed: list[str] = []
    with (
        local_evaluator(device, options) as evaluator,
        Records(memory_folder() / "speedups.jsonl") as records,
        observer.progress("measuring", len(jobs)) as advance,
    ):
        for job in jobs:
            row = _row(job, evaluator, records, options.again)
            if isinstance(row, str):
                failed.append(f"{job.problem.id}: {row}")
                advance(f"{job.problem.id} failed")
            else:
                rows.append(row)
                advance(f"{job.problem.id} {row.speedup:.3f}x")
    slow = sorted((row for row in rows if row.speedup < options.threshold), key=lambda row: row.speedup)
    disturbed = tuple(row for row in rows if row.contention is not None)
    return Listing(tuple(slow), len(rows), tuple(failed), tuple(skipped), disturbed)


def _jobs(options: ListSlowOptions, device: str) -> tuple[list[Job], list[str]]:
    jobs: list[Job] = []
    skipped: list[str] = []
    offered = {problem.id for problem in list_problems(options.dataset)}
    elsewhere = 0
    for file in list_kernels(choose_backend(options, device)):
        if options.problem is None and file.problem not in offered:
            elsewhere += 1
            continue
        try:
            jobs.append(find_job(options, str(file.path), device))
        except KernelwrightError as error:
            skipped.append(f"{file.problem}: {error}")
    if elsewhere:
        skipped.append(f"{elsewhere} shipped kernels are for problems that {options.dataset} does not have")
    return jobs, skipped


class Records(JsonLines):
    """Speedups measured before, by device, versions, problem, sizes, kernel source and how strictly it was checked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "set KERNELWRIGHT_CACHE to another folder")
        self._known = self.replay()

    def find(self, key: dict[str, str]) -> dict[str, Any] | None:
        """The newest record with this key, one that nothing disturbed before one that something did."""
        found = [record for record in self._known if record.get("key") == key]
        quiet = [record for record in found if record.get("contention") is None]
        return next(reversed(quiet or found), None)

    def add(self, key: dict[str, str], evaluation: Evaluation) -> None:
        """Remember a measurement."""
        record = {"key": key, **evaluation.metrics().to_json(), "environment": evaluation.environment}
        self.append(record)
        self._known.append(record)


def _row(job: Job, evaluator: LocalEvaluator, records: Records, again: bool) -> SlowKernel | str:
    """A kernel's row, from its record or from a measurement; or why there is none.

    A disturbed record is kept too and marked, or a busy machine would measure for minutes at every call; `again`
    measures it once more.
    """
    key = {
        "device": device_label(job.device),
        "torch": version("torch"),
        **{package: version(package) for package in job.kernel.language.packages},
        "problem": job.problem.id,
        "reference": job.problem.digest,
        "sizes": job.problem.sizes_key,
        "kernel": job.kernel.digest,
        "allow_torch": job.trust.allow_torch.value,
        "graph": str(job.graph),
        "precision": job.precision.value,
    }
    known = records.find(key)
    if known is None or (again and known.get("contention") is not None):
        try:
            evaluation = next(iter(evaluator.evaluate(job.problem, job.kernel, [Config()])))
        except KernelwrightError as error:
            return str(error)
        if evaluation.speedup is None:
            reason = str(evaluation.rejection or evaluation.message)
            return f"{evaluation.status}: {(reason.splitlines() or [''])[0]}"
        records.add(key, evaluation)
        known = records.find(key)
        assert known is not None
    return SlowKernel(
        speedup=known["speedup"],
        category=performance_category(known["speedup"]),
        kernel=f"{job.problem.id}.py",
        latency_ms=known["latency_ms"],
        reference_ms=known["reference_ms"],
        problem=job.problem.name,
        workload=job.problem.workload,
        device=key["device"],
        contention=known.get("contention"),
        speedup_default=known["speedup_default"],
        precision=job.precision.value,
    )
