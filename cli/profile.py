"""`kernelwright profile`: what a kernel's time goes to, with the evidence."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..agent.analysis import bottleneck
from ..agent.program.briefing import device_text, measured_text
from ..core import Config, Evaluation, KernelProfile, Profile
from ..core.bottleneck import Bottleneck
from ..evaluators.profiling.ncu import Counted, count
from . import wiring
from .render import Screen
from .request import Request


def run_profile(request: Request, ncu: bool) -> int:
    """Evaluate one kernel and say where its time goes; 0 when it is right."""
    assert request.kernel is not None
    device = wiring.choose_device(request)
    job = wiring.job(request, request.kernel, device)
    screen = Screen(request)
    with (
        wiring.evaluator(device, trust=request.trust) as evaluator,
        screen.working(f"profiling {job.problem.id} on {device}"),
    ):
        evaluation = next(iter(evaluator.evaluate(job.problem, job.kernel, [Config()])))
        profile = evaluator.profile(job.problem) if evaluation.latency_ms is not None else None
        remark = ""
        if ncu and evaluation.ok:
            counted = _count(job, evaluation)
            evaluation, remark = _with_counters(evaluation, counted), counted.remark
    found = bottleneck(profile, job.kernel, evaluation) if profile is not None else None
    if request.json:
        record = _record(evaluation, profile, found, remark)
        print(json.dumps({"problem": job.problem.id, "workload": job.problem.workload, **record}), file=sys.stdout)
    else:
        _show(screen, evaluation, profile, found, remark)
    return 0 if evaluation.ok else 1


def _count(job: wiring.Job, evaluation: Evaluation) -> Counted:
    if job.device == wiring.CPU:
        return Counted(remark="no counters: Nsight Compute counts on GPUs only")
    ran = evaluation.kernel_profile
    own = {kernel.name for kernel in ran.kernels if kernel.own} if ran else set()
    return count(job.problem, job.kernel, job.device, own)


def _with_counters(evaluation: Evaluation, counted: Counted) -> Evaluation:
    if not counted.counters:
        return evaluation
    ran = evaluation.kernel_profile or KernelProfile()
    return evaluation.model_copy(update={"kernel_profile": ran.model_copy(update={"counters": counted.counters})})


def _record(evaluation: Evaluation, profile: Profile | None, found: Bottleneck | None, remark: str) -> dict[str, Any]:
    ran = evaluation.kernel_profile
    return {
        "status": evaluation.status,
        "message": evaluation.message,
        "latency_ms": evaluation.latency_ms,
        "floor_ms": profile.floor_ms if profile else None,
        "profile": profile.model_dump(mode="json") if profile else None,
        "kernel_profile": ran.model_dump(mode="json") if ran else None,
        "bottleneck": dataclasses.asdict(found) if found else None,
        "remark": remark,
        "environment": evaluation.environment,
    }


def _show(
    screen: Screen, evaluation: Evaluation, profile: Profile | None, found: Bottleneck | None, remark: str
) -> None:
    if profile is not None:
        screen.print(escape(device_text(profile)))
    screen.print(escape(measured_text(evaluation)))
    if evaluation.kernel_profile is not None and evaluation.kernel_profile.kernels:
        screen.print(_table(evaluation.kernel_profile))
    if evaluation.kernel_profile is not None:
        for name, value in evaluation.kernel_profile.counters.items():
            screen.print(escape(f"{name:>24} {value:8.1f}"))
    if remark:
        screen.print(escape(remark))
    if found is not None:
        screen.print(escape(f"bottleneck: {found.name} ({found.cause})"))
        for line in found.evidence:
            screen.print(escape(f"- {line}"))


def _table(ran: KernelProfile) -> Table:
    """A row per kernel; columns of which nothing is known, as on a CPU, are left out."""
    columns: dict[str, list[Any]] = {
        "ms": [f"{one.time_ms:.4f}" for one in ran.kernels],
        "launches": [one.launches for one in ran.kernels],
        "blocks": [one.blocks for one in ran.kernels],
        "threads": [one.threads for one in ran.kernels],
        "registers": [one.registers for one in ran.kernels],
        "spills": [one.spills for one in ran.kernels],
        "shared": [one.shared_bytes for one in ran.kernels],
        "occupancy": [None if one.occupancy is None else f"{one.occupancy:.0%}" for one in ran.kernels],
        "limited by": [one.limited_by for one in ran.kernels],
    }
    known = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    table = Table(box=None, pad_edge=False)
    table.add_column("kernel", overflow="fold")
    for name in known:
        table.add_column(name, justify="right")
    names = [escape(one.short_name + ("" if one.own else " (library)")) for one in ran.kernels]
    for name, *values in zip(names, *known.values(), strict=True):
        table.add_row(name, *("" if value is None else str(value) for value in values))
    return table
