"""Find a kernel's bottleneck, with the evidence.

Exit codes: 0 it was profiled, 1 it is not correct or is unproven, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..agent.bottleneck import bottleneck as find_bottleneck
from ..agent.program.briefing import measured_text
from ..agent.program.device import device_text
from ..core import Config, Evaluation, Kernel, KernelProfile, Profile
from ..core.causes.bottleneck import Bottleneck
from ..core.causes.table import UNEXPLAINED
from ..core.events import Emit, working
from ..evaluators.profiling.counters import Counted, count
from ..evaluators.settings import Sandbox
from ..runtime import command, result
from ..runtime.devices import CPU
from ..runtime.jobs import Job
from ..runtime.options.groups import FunctionOptions, ProblemOptions
from ..runtime.options.option import option
from ..runtime.options.trust import ProofOptions
from ..runtime.result import EXPLAIN, EvaluationResult, JobResult
from ..runtime.runtime import OpenLocal, Runtime

EXAMPLES = ("profile 1_19", "profile 2_10 --device cuda --ncu")
AGENTS = ("kernel", "problem", "workload", "backend", "reference", "inputs")
AT_ROOFLINE = 1.05
"""Multiple of the floor below which nothing is left to gain."""


@dataclass(frozen=True, kw_only=True)
class Options(ProofOptions, ProblemOptions, FunctionOptions):
    """Find a kernel's bottleneck."""

    ncu: bool = option(
        False,
        "Also collect counters with Nsight Compute, or rocprofv3 on AMD's GPUs, where it is installed. They are "
        "collected without it, too, where nothing else explains a kernel's time.",
    )


@dataclass(frozen=True)
class Plan(command.Plan):
    """The kernel to profile."""

    job: Job
    ncu: bool
    sandbox: Sandbox
    open_evaluator: OpenLocal


class Result(EvaluationResult, JobResult):
    """How a kernel spends its time. Times are medians of one call, in milliseconds."""

    evaluation: result.ForPython[Evaluation]
    profile: Profile | None
    """Work of the problem and peak rates of the device; None if the kernel was not timed."""
    bottleneck: Bottleneck | None
    """The bottleneck with its evidence; None if the kernel was not timed."""
    remark: str = ""
    """Reason why there are no counters; '' if there are, or if none were requested."""

    @result.computed
    def latency_ms(self) -> float | None:
        """Time in milliseconds; None if the kernel was not timed."""
        return self.evaluation.latency_ms

    @result.computed
    def floor_ms(self) -> float | None:
        """Lower bound in milliseconds, by traffic, matrix products and measured peak rates (the roofline model).

        No implementation is much faster.
        """
        return self.profile.floor_ms if self.profile else None

    @result.computed
    def times_floor(self) -> float | None:
        """latency_ms / floor_ms. Near 1 nothing is left to gain."""
        return self.latency_ms / self.profile.floor_ms if self.latency_ms and self.profile else None

    @result.computed
    def kernel_profile(self) -> KernelProfile | None:
        """The kernels that a profiler saw in one call. Most fields are unknown on a CPU."""
        return self.evaluation.kernel_profile

    @result.computed
    def profiled_ms(self) -> float | None:
        """Time of the profiled call in milliseconds."""
        return self.kernel_profile.time_ms if self.kernel_profile else None

    @result.computed
    def environment(self) -> dict[str, str]:
        """Device and versions."""
        return self.evaluation.environment

    @property
    def next_step(self) -> str:
        """The next step of an agent."""
        if not self.correct:
            return EXPLAIN
        if self.profile is None or self.times_floor is None:
            return "it is correct and was not timed here: profile it on a device that its language compiles for"
        if self.times_floor <= AT_ROOFLINE:
            return "stop: it is as fast as the roofline allows"
        cause = self.bottleneck.cause if self.bottleneck else ""
        return f"change one thing against '{cause}': search_examples shows how others did; then evaluate, and tune"

    @property
    def failed_kernel(self) -> tuple[Kernel, Evaluation] | None:
        """The kernel and its evaluation, if it is not correct."""
        return None if self.correct else (self.job.kernel, self.evaluation)

    def lines(self) -> Iterator[Any]:
        """Device, times, a row per kernel of a call, and the bottleneck."""
        if self.profile is not None:
            yield device_text(self.profile)
        yield measured_text(self.evaluation)
        if (ran := self.kernel_profile) is not None:
            if ran.kernels:
                yield kernel_table(ran, self.profile.ceilings.cores if self.profile else None, self.latency_ms)
                yield total_text(ran, self.latency_ms)
            for name, value in ran.counters.items():
                yield f"{name:>24} {value:8.1f}"
        if self.remark:
            yield self.remark
        if self.bottleneck is not None:
            yield f"bottleneck: {self.bottleneck.name} ({self.bottleneck.cause})"
            for line in self.bottleneck.evidence:
                yield f"- {line}"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the kernel and its problem."""
    device = runtime.device(options)
    job = runtime.job(options, options.kernel, device)
    return Plan(job, options.ncu, options.sandbox, runtime.local_evaluator(device, options, read_code=True))


def run(plan: Plan, emit: Emit) -> Result:
    """Evaluate one kernel and find its bottleneck."""
    job, remark = plan.job, ""
    with plan.open_evaluator() as evaluator, working(emit, f"profiling {job.problem.id} on {job.device}"):
        (evaluation,) = evaluator.evaluate(job.problem, job.kernel, [Config()])
        profile = evaluator.profile(job.problem) if evaluation.latency_ms is not None else None
        found = find_bottleneck(profile, job.kernel, evaluation) if profile is not None else None
        unexplained = found is not None and found.cause == UNEXPLAINED and job.device != CPU
        if (plan.ncu or unexplained) and evaluation.ok:
            counted = _count(job, evaluation, plan.sandbox)
            evaluation, remark = _with_counters(evaluation, counted), counted.remark
            found = find_bottleneck(profile, job.kernel, evaluation) if profile is not None else None
    return Result(job=job, evaluation=evaluation, profile=profile, bottleneck=found, remark=remark)


def _count(job: Job, evaluation: Evaluation, sandbox: Sandbox) -> Counted:
    if job.device == CPU:
        return Counted(remark="no counters: they are of GPUs only")
    ran = evaluation.kernel_profile
    own = {kernel.name for kernel in ran.kernels if kernel.own} if ran else set()
    return count(job.problem, job.kernel, job.device, own, sandbox)


def _with_counters(evaluation: Evaluation, counted: Counted) -> Evaluation:
    if not counted.counters:
        return evaluation
    ran = evaluation.kernel_profile or KernelProfile()
    return evaluation.model_copy(update={"kernel_profile": ran.model_copy(update={"counters": counted.counters})})


def total_text(ran: KernelProfile, latency_ms: float | None) -> str:
    """Return the sum of the rows, compared with the median of the timed calls."""
    if latency_ms is not None and ran.slowed(latency_ms):
        return (
            f"shares of one call that the profiler slowed to {ran.time_ms:.4g} ms; timed calls take {latency_ms:.4g} ms"
        )
    timed = f", of a median of {latency_ms:.4g} ms" if latency_ms is not None else ""
    return f"one profiled call: {ran.time_ms:.4g} ms in all{timed}"


def kernel_table(ran: KernelProfile, multiprocessors: int | None, latency_ms: float | None = None) -> Table:
    """Return a row per kernel. Columns without known values, as on a CPU, are omitted.

    If the profiled call was slower than timed calls, only fractions are shown. The occupancy is the maximum that fits.
    The estimate is the mean over the waves for blocks of equal time.
    """
    estimated = [kernel.filled(multiprocessors) if multiprocessors else None for kernel in ran.kernels]
    columns: dict[str, list[Any]] = {
        "share": [f"{ran.share(kernel):.1%}" for kernel in ran.kernels],
        "ms": [None if ran.slowed(latency_ms) else f"{kernel.time_ms:.4f}" for kernel in ran.kernels],
        "launches": [kernel.launches for kernel in ran.kernels],
        "blocks": [kernel.blocks for kernel in ran.kernels],
        "threads": [kernel.threads for kernel in ran.kernels],
        "registers": [kernel.registers for kernel in ran.kernels],
        "spills": [kernel.spills for kernel in ran.kernels],
        "shared": [kernel.shared_bytes for kernel in ran.kernels],
        "occupancy": [None if kernel.occupancy is None else f"{kernel.occupancy:.0%}" for kernel in ran.kernels],
        "estimated": [None if item is None else f"{item:.0%}" for item in estimated],
        "limited by": [kernel.limited_by for kernel in ran.kernels],
    }
    known = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    table = Table(box=None, pad_edge=False)
    table.add_column("kernel", overflow="fold")
    for name in known:
        table.add_column(name, justify="right")
    names = [escape(kernel.short_name + ("" if kernel.own else " (library)")) for kernel in ran.kernels]
    for name, *values in zip(names, *known.values(), strict=True):
        table.add_row(name, *("" if value is None else str(value) for value in values))
    return table
