"""`plan`: what one call of a kernel launches, replayed without the kernel's Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core import Evaluation, OptionError
from ..core.events import Emit, working
from ..core.launch_plan import LaunchPlan
from .devices import choose_device
from .evaluators import local_evaluator
from .jobs import Job, find_job
from .options.plan import PlanOptions


@dataclass(frozen=True)
class PlanResult:
    """A kernel's launch plan, and whether replaying it computes what the reference does."""

    job: Job
    evaluation: Evaluation
    """Checked, not timed; its `replay` says whether the plan was replayed, or why not."""
    plan: LaunchPlan | None
    """None where there is none."""

    @property
    def replayed(self) -> bool:
        """Whether the kernel is correct, and its plan computes the same."""
        return self.evaluation.ok and self.evaluation.replay is not None and self.evaluation.replay.replayed

    @property
    def remark(self) -> str:
        """Why it was not replayed; '' where it was."""
        if self.replayed:
            return ""
        found = self.evaluation
        return found.replay.reason if found.ok and found.replay else f"{found.status}: {found.message}"

    def record(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it."""
        return {
            "problem": self.job.problem.id,
            "workload": self.job.problem.workload,
            "status": self.evaluation.status,
            "message": self.evaluation.message,
            "replayed": self.replayed,
            "remark": self.remark,
            "plan": self.plan.model_dump(mode="json") if self.plan else None,
        }


def run_plan(options: PlanOptions, emit: Emit) -> PlanResult:
    """Check one kernel and make its launch plan."""
    device = choose_device(options)
    if options.save_plan is not None and options.save_plan.exists() and not options.save_plan.is_dir():
        raise OptionError(f"`save_plan`: {options.save_plan} is a file", "name a folder")
    job = find_job(options, options.kernel, device)
    with (
        local_evaluator(device, options) as evaluator,
        working(emit, f"recording {job.problem.id} on {device}"),
    ):
        evaluation, plan = evaluator.plan(job.problem, job.kernel, options.save_plan)
    return PlanResult(job, evaluation, plan)
