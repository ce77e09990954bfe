"""`profile`: where a kernel's time goes, with the evidence."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ..agent.analysis import bottleneck
from ..core import Config, Evaluation, KernelProfile, Profile
from ..core.bottleneck import Bottleneck
from ..core.events import Emit, working
from ..evaluators.profiling.ncu import Counted, count
from ..evaluators.settings import Sandbox
from .devices import CPU, choose_device
from .evaluators import local_evaluator
from .jobs import Job, find_job
from .options.evaluate import ProfileOptions


@dataclass(frozen=True)
class ProfileResult:
    """A kernel's measurements, and the bottleneck that they show."""

    job: Job
    evaluation: Evaluation
    profile: Profile | None
    """The problem's work and the device's ceilings; None when the kernel was not timed."""
    bottleneck: Bottleneck | None
    remark: str = ""
    """Why Nsight Compute counted nothing; '' where it did, or was not asked to."""

    @property
    def correct(self) -> bool:
        """Whether the kernel computes what the reference does."""
        return self.evaluation.ok

    def record(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it."""
        evaluation, profile = self.evaluation, self.profile
        ran = evaluation.kernel_profile
        return {
            "problem": self.job.problem.id,
            "workload": self.job.problem.workload,
            "status": evaluation.status,
            "message": evaluation.message,
            "latency_ms": evaluation.latency_ms,
            "floor_ms": profile.floor_ms if profile else None,
            "profile": profile.model_dump(mode="json") if profile else None,
            "kernel_profile": ran.model_dump(mode="json") if ran else None,
            "profiled_ms": ran.time_ms if ran else None,
            "bottleneck": dataclasses.asdict(self.bottleneck) if self.bottleneck else None,
            "remark": self.remark,
            "environment": evaluation.environment,
        }


def run_profile(options: ProfileOptions, emit: Emit) -> ProfileResult:
    """Evaluate one kernel and find its bottleneck."""
    device = choose_device(options)
    job = find_job(options, options.kernel, device)
    with (
        local_evaluator(device, options) as evaluator,
        working(emit, f"profiling {job.problem.id} on {device}"),
    ):
        (evaluation,) = evaluator.evaluate(job.problem, job.kernel, [Config()])
        profile = evaluator.profile(job.problem) if evaluation.latency_ms is not None else None
        remark = ""
        if options.ncu and evaluation.ok:
            counted = _count(job, evaluation, options.sandbox)
            evaluation, remark = _with_counters(evaluation, counted), counted.remark
    found = bottleneck(profile, job.kernel, evaluation) if profile is not None else None
    return ProfileResult(job, evaluation, profile, found, remark)


def _count(job: Job, evaluation: Evaluation, sandbox: Sandbox) -> Counted:
    if job.device == CPU:
        return Counted(remark="no counters: Nsight Compute counts on GPUs only")
    ran = evaluation.kernel_profile
    own = {kernel.name for kernel in ran.kernels if kernel.own} if ran else set()
    return count(job.problem, job.kernel, job.device, own, sandbox)


def _with_counters(evaluation: Evaluation, counted: Counted) -> Evaluation:
    if not counted.counters:
        return evaluation
    ran = evaluation.kernel_profile or KernelProfile()
    return evaluation.model_copy(update={"kernel_profile": ran.model_copy(update={"counters": counted.counters})})
