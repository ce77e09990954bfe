"""`optimize --list-slow`: kernels ranked by measured speedup, the slowest first."""

from __future__ import annotations

import csv
import io
import json
import sys
from importlib.metadata import version
from typing import Any

from ..agent.analysis import performance_category
from ..core import Config, Evaluation, Journal, KernelwrightError
from ..core.files import memory_folder
from ..corpus import list_kernels, list_problems
from ..evaluators.local import LocalEvaluator
from . import wiring
from .optimize import metrics, short
from .render import Screen, busy
from .request import Request

COLUMNS = ("speedup", "category", "kernel", "latency_ms", "reference_ms", "problem", "workload", "device", "contention")


def run_list_slow(request: Request) -> int:
    """Measure what has no current record, then print the kernels below the threshold."""
    device = wiring.choose_device(request)
    backend = wiring.choose_backend(request, device)
    screen = Screen(request)
    jobs: list[wiring.Job] = []
    skipped: list[str] = []
    offered = {problem.id for problem in list_problems(request.dataset)}
    elsewhere = 0
    for file in list_kernels(backend):
        if request.problem is None and file.problem not in offered:
            elsewhere += 1
            continue
        try:
            jobs.append(wiring.job(request, str(file.path), device))
        except KernelwrightError as error:
            skipped.append(f"{file.problem}: {error}")
    if elsewhere:
        skipped.append(f"{elsewhere} shipped kernels are for problems that {request.dataset} does not have")
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    with (
        wiring.evaluator(device, trust=request.trust) as evaluator,
        Records(memory_folder() / "speedups.jsonl") as records,
        screen.progress("measuring", len(jobs)) as advance,
    ):
        for job in jobs:
            row = _row(job, evaluator, records)
            if isinstance(row, str):
                failed.append(f"{job.problem.id}: {row}")
            else:
                rows.append(row)
            advance(job.problem.id)
    slow = sorted((row for row in rows if row["speedup"] < request.threshold), key=lambda row: row["speedup"])
    form = request.format or ("json" if request.json else None)
    if form is None and sys.stdout.isatty():
        screen.slow_table(slow, len(rows), request.threshold)
    else:
        sys.stdout.write(render(slow, form or "plain"))
    disturbed = [f"{row['kernel']}: {busy(row['contention'])}" for row in rows if row["contention"] is not None]
    for line in [*skipped, *failed, *disturbed]:
        screen.warn(line)
    return 1 if failed or not rows else 0


class Records(Journal):
    """Speedups measured before, by device, versions, problem, sizes, kernel source and how strictly it was judged."""

    def find(self, key: dict[str, str]) -> dict[str, Any] | None:
        """The newest record with this key."""
        return next((record for record in reversed(self.records) if record.get("key") == key), None)

    def add(self, key: dict[str, str], evaluation: Evaluation) -> dict[str, Any]:
        """Remember a measurement."""
        self.append({"key": key, **metrics(evaluation), "environment": evaluation.environment})
        return self.records[-1]


def _row(job: wiring.Job, evaluator: LocalEvaluator, records: Records) -> dict[str, Any] | str:
    """A kernel's row, from its record or from a measurement; or why there is none."""
    key = {
        "device": wiring.device_label(job.device),
        "torch": version("torch"),
        str(job.kernel.language): version(str(job.kernel.language)),
        "problem": job.problem.id,
        "reference": job.problem.digest,
        "sizes": job.problem.sizes_key,
        "kernel": job.kernel.digest,
        "allow_torch": job.trust.allow_torch.value,
        "graph": str(job.trust.graph),
    }
    known = records.find(key)
    if known is None:
        try:
            evaluation = next(iter(evaluator.evaluate(job.problem, job.kernel, [Config()])))
        except KernelwrightError as error:
            return str(error)
        if evaluation.speedup is None:
            reason = str(evaluation.rejection or evaluation.message)
            return f"{evaluation.status}: {(reason.splitlines() or [''])[0]}"
        if evaluation.contention is None:
            known = records.add(key, evaluation)
        else:
            # Shown, but not remembered: the next listing measures it again.
            known = metrics(evaluation)
    return {
        "speedup": known["speedup"],
        "category": performance_category(known["speedup"]),
        "kernel": short(job.problem),
        "latency_ms": known["latency_ms"],
        "reference_ms": known["reference_ms"],
        "problem": job.problem.name,
        "workload": job.problem.workload,
        "device": key["device"],
        "contention": known.get("contention"),
    }


def render(rows: list[dict[str, Any]], form: str) -> str:
    """Rows for a pipe. Plain: speedup, category, kernel, so that the third field names the kernel."""
    if form == "json":
        return json.dumps(rows, indent=1) + "\n"
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()
    return "".join(f"{row['speedup']:.3f} {row['category']} {row['kernel']}\n" for row in rows)
