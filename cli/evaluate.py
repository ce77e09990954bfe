"""`kernelwright evaluate`: one kernel, once, in fresh processes."""

from __future__ import annotations

import json
import sys

from ..agent.turn import summary
from ..core import Config
from . import wiring
from .render import Screen, describe_evaluation
from .request import Request


def run_evaluate(request: Request) -> int:
    """Evaluate one kernel; 0 when it is right."""
    assert request.kernel is not None
    device = wiring.choose_device(request)
    job = wiring.job(request, request.kernel, device)
    screen = Screen(request)
    with wiring.evaluator(device) as evaluator, screen.working(f"evaluating {job.problem.id} on {device}"):
        evaluation = next(iter(evaluator.evaluate(job.problem, job.kernel, [Config()])))
    if request.json:
        record = {
            "problem": job.problem.id,
            "workload": job.problem.workload,
            "environment": evaluation.environment,
        }
        print(json.dumps({**record, **summary(evaluation)}), file=sys.stdout)
    else:
        screen.print(describe_evaluation(job, evaluation))
    return 0 if evaluation.ok else 1
