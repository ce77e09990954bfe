"""Optimize the recorded regions of a model, and put results that beat Inductor's code by 2 % into the store.

The time limit is distributed by potential gain: a region's share of the step times its distance to the floor. The
region with the largest gain is first, and time that it leaves goes to the next ones. A kernel in DIR/kernels with the
name of a region's file is the start for that region; otherwise a first kernel is made, as for any problem.

Exit codes: 0 the store has something for a region, 1 all failed, 2 wrong usage, 3 nothing faster was found, 75 waiting
for a reply (--no-wait).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import KernelError, KernelwrightError, OptionError, ReplyPendingError, Speedup, Target
from ..core.baselines import COMPILE
from ..core.budget import Deadline
from ..core.events import Emit, Note, PartDone, PartStarted, progress
from ..core.files import cache_folder
from ..corpus import find_kernel
from ..corpus.problems import ProblemFile
from ..deploy.models.results import require_entry, stored_region
from ..deploy.models.store import RegionStore, default_folders
from ..deploy.source import measured_kernel
from ..runtime import command, result
from ..runtime.command import NOTHING_FASTER
from ..runtime.evaluators import Evaluators
from ..runtime.jobs import at_workload, earlier_summary
from ..runtime.options.groups import RunOptions
from ..runtime.options.option import described, made_of
from ..runtime.options.trust import Baseline, TimingOptions
from ..runtime.runtime import OpenLocal, Runtime
from ._list_slow import Records, SlowProblem, problem_key, problem_row, recorded_problems, with_shares
from ._optimize.settings import SessionSettings

if TYPE_CHECKING:
    from ._optimize.kernel_optimizer import KernelOptimizer

EXAMPLES = (
    "optimize-recorded recorded --time-limit 1800",
    "optimize-recorded recorded --time-limit 1800 --resume",
)
POSITIONAL = ("recorded",)
VERBOSE = True
FAILED = "failed"
"""The result of a failed region; the warnings have the reason."""
LEAST_TO_GAIN = 0.002
"""Potential gain, as a share of a step, below which a region is skipped."""


@dataclass(frozen=True, kw_only=True)
class Options(RunOptions):
    """Optimize the recorded regions of a model within a time limit."""

    recorded: Path = field(
        kw_only=False,
        metadata=described("The folder that a model's run wrote (KERNELWRIGHT_RECORD).", metavar="DIR", trusted=True),
    )

    def check(self) -> None:
        """Raise `OptionError` without a time limit, and for options that name one kernel."""
        super().check()
        if self.time_limit is None:
            raise OptionError("`recorded` needs a `time_limit`", "give the seconds for all regions together")
        if self.problem or self.workload:
            raise OptionError(
                "`problem` and `workload` belong to one kernel", "`recorded` takes all regions of a folder"
            )
        if self.remote is not None:
            raise OptionError("`recorded` measures on this machine", "leave `evaluator` out")


@dataclass(frozen=True)
class RegionJob:
    """A recorded region, and how it is optimized."""

    file: ProblemFile
    settings: SessionSettings
    start: Path | None
    """The user's kernel for the region; None if a first kernel is made."""

    @property
    def in_words(self) -> str:
        """Its file and the start, for `--dry-run`."""
        return str(self.file.path) if self.start is None else f"{self.file.path}, from {self.start}"


@dataclass(frozen=True)
class Plan(command.Plan):
    """The regions, and the limit for all of them."""

    device: str
    time_limit: float
    resume: bool
    results: Path
    store: Path
    jobs: tuple[RegionJob, ...]
    timing: TimingOptions = field(metadata=command.NOT_SHOWN)
    open_compiling: OpenLocal = field(metadata=command.NOT_SHOWN)
    open_evaluators: Callable[[], Evaluators] = field(metadata=command.NOT_SHOWN)


class Result(result.Result):
    """The result for each region, the one with the most to gain first."""

    regions: tuple[dict[str, Any], ...]
    """Region, share of the step, headroom, allotted seconds, outcome, and the entry."""
    failed: tuple[str, ...]
    """Regions that could not be measured or optimized, with reasons."""

    @property
    def entries(self) -> int:
        """Number of regions with an entry in the store."""
        return sum(bool(row["entry"]) for row in self.regions)

    @property
    def exit_code(self) -> int:
        """0 if the store has something for a region, 1 if all failed, else 3."""
        if self.entries:
            return 0
        return 1 if self.failed and all(row["result"] == FAILED for row in self.regions) else NOTHING_FASTER

    @property
    def warnings(self) -> tuple[str, ...]:
        """The failures."""
        return self.failed

    def lines(self) -> Iterator[Any]:
        """A row for each region."""
        table = result.table("region", ">share", ">headroom", ">seconds", "result")
        for row in self.regions:
            given = "" if row["seconds"] is None else f"{row['seconds']:.0f}"
            table.add_row(
                Path(row["region"]).stem, f"{row['share']:.1%}", f"{row['headroom']:.1f}x", given, row["result"]
            )
        yield table
        yield f"{self.entries} of {len(self.regions)} regions are in the store"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the regions and their starts."""
    device = runtime.device(options)
    timed = replace(options, baseline=(*options.baseline, Baseline.COMPILE))
    jobs = []
    for file in recorded_problems(options.recorded):
        start = options.recorded / "kernels" / file.path.name
        own = made_of(RunOptions, timed, problem=str(file.path))
        jobs.append(RegionJob(file, SessionSettings.of(own, runtime), start if start.is_file() else None))
    return Plan.of(
        options,
        device=device,
        store=default_folders()[0],
        jobs=tuple(jobs),
        timing=options,
        open_compiling=runtime.local_evaluator(device, timed),
        open_evaluators=jobs[0].settings.open_evaluators,
    )


def run(plan: Plan, emit: Emit) -> Result:
    """Rank the regions, and optimize one after the other while there is time."""
    deadline, failed = Deadline(plan.time_limit), list[str]()
    ranked = _ranked(plan, emit, failed)
    jobs = {str(job.file.path): job for job in plan.jobs}
    rows = []
    with plan.open_evaluators() as evaluators:
        evaluators.start()
        from ._optimize.kernel_optimizer import KernelOptimizer

        for number, row in enumerate(ranked, start=1):
            job = jobs[row.problem]
            found: dict[str, Any] = {"region": row.problem, "share": row.share, "headroom": row.headroom}
            found |= {"seconds": None, "entry": ""}
            seconds = _given(deadline, row, ranked[number - 1 :])
            if row.to_gain < LEAST_TO_GAIN:
                found["result"] = f"left as it is: less than {LEAST_TO_GAIN:.1%} of a step to gain"
            elif seconds < 1.0:
                found["result"] = "no time was left; `resume` goes on"
            else:
                emit(PartStarted(job.file.name, number, len(ranked)))
                budget = job.settings.criteria.budget.model_copy(update={"seconds": seconds})
                criteria = replace(job.settings.criteria, budget=budget)
                optimizer = KernelOptimizer(replace(job.settings, criteria=criteria), evaluators, emit)
                found |= {"seconds": round(seconds, 1), **_optimized(job, optimizer, plan, emit, failed)}
            rows.append(found)
    return Result(regions=tuple(rows), failed=tuple(failed))


def _ranked(plan: Plan, emit: Emit, failed: list[str]) -> list[SlowProblem]:
    """Return the regions that can be measured, the one with the most to gain first."""
    rows, target = [], Target.of_device(plan.device)
    with (
        Records(cache_folder() / "speedups.jsonl") as records,
        progress(emit, "measuring", len(plan.jobs)) as advance,
        plan.open_compiling() as evaluator,
    ):
        for job in plan.jobs:
            try:
                problem = at_workload(job.file.read(), target, plan.device, None)
                key = problem_key(problem, plan.device, plan.timing)
                rows.append(problem_row(problem, key, evaluator, records.find_or_measure))
                advance(f"{job.file.name} {rows[-1].in_words}")
            except KernelwrightError as error:
                failed.append(f"{job.file.name}: {error}")
                advance(f"{job.file.name} failed")
    measured = {row.problem for row in rows}
    return with_shares(rows, [job.file for job in plan.jobs if str(job.file.path) in measured])


def _given(deadline: Deadline, row: SlowProblem, left: list[SlowProblem]) -> float:
    """Return a region's share of the remaining seconds."""
    total = sum(item.to_gain for item in left if item.to_gain >= LEAST_TO_GAIN)
    return (deadline.remaining() or 0.0) * row.to_gain / total if total else 0.0


def _optimized(job: RegionJob, optimizer: KernelOptimizer, plan: Plan, emit: Emit, failed: list[str]) -> dict[str, Any]:
    """Optimize a region, and put the result into the store. A failure affects only this region."""
    try:
        found = optimizer.job(str(job.start or job.file.path))
        found = replace(found, first=True)  # the result replaces torch.compile's code
        journal = optimizer.results.journal_path(found.problem, found.backend)
        done = earlier_summary(journal, found, optimizer.target(found)) if plan.resume else None
        if done is not None:
            emit(Note(f"finished before: {job.file.name}"))
            kernel = Path(done["kernel"]) if done.get("kernel") else None
            return _entered(job, kernel, None, plan)
        ended = optimizer.optimize(found)
        emit(PartDone(ended))
        return _entered(job, ended.kernel, ended.outcome.best.speedup_against(COMPILE), plan)
    except ReplyPendingError:
        raise
    except KernelwrightError as error:
        failed.append(f"{job.file.name}: {error}")
        return {"result": FAILED}


def _entered(job: RegionJob, kernel: Path | None, gain: Speedup | None, plan: Plan) -> dict[str, Any]:
    """Put a kernel into the store, or say why not."""
    remark = f" ({gain} over Inductor's code)" if gain else ""
    if kernel is None or not kernel.is_file():
        return {"result": f"nothing faster was found{remark}"}
    problem = job.file.read()
    measured = measured_kernel(kernel, find_kernel(str(kernel), "").read(), problem)
    try:
        require_entry(measured)
    except KernelError as reason:
        return {"result": f"not in the store: {reason}"}
    path = RegionStore([plan.store]).add(stored_region(measured))
    low, high = measured.evidence["interval_compile"]
    ratio = measured.evidence["compile_ms"] / measured.evidence["latency_ms"]
    return {"result": f"in the store: {ratio:.3f}x [{low:.3f}, {high:.3f}] over Inductor's code", "entry": path.stem}
