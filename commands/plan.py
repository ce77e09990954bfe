"""Show what one call of a kernel launches, and replay it without the kernel's Python.

Exit codes: 0 the replay computes what the reference does, 1 it does not or there is no plan, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..core import Evaluation, OptionError
from ..core.events import Emit, working
from ..core.launch_plan import LaunchPlan
from ..runtime import command, result
from ..runtime.jobs import Job
from ..runtime.options.groups import FunctionOptions, ProblemOptions
from ..runtime.options.option import option
from ..runtime.options.trust import TrustOptions
from ..runtime.result import EvaluationResult, JobResult
from ..runtime.runtime import OpenLocal, Runtime

EXAMPLES = ("plan 2_10 --workload tiny --save-plan plan",)


@dataclass(frozen=True, kw_only=True)
class Options(TrustOptions, ProblemOptions, FunctionOptions):
    """Show what one call of a kernel launches, and replay it without the kernel's Python."""

    save_plan: Path | None = option(
        None, "Write the plan to this folder: JSON, constants and code, without the kernel's Python.", metavar="DIR"
    )


@dataclass(frozen=True)
class Plan(command.Plan):
    """The kernel to record, and the folder for its plan."""

    job: Job
    save_plan: Path | None
    open_evaluator: OpenLocal


class Result(EvaluationResult, JobResult):
    """A kernel's launch plan, and whether replaying it computes what the reference does."""

    plan: LaunchPlan | None
    """The plan; None if it could not be made."""
    evaluation: result.ForPython[Evaluation]
    """The evaluation, checked but not timed. `replay` tells whether the plan was replayed, or why not."""
    saved: result.ForPython[Path | None] = None
    """Folder of the plan, if it was replayed and saved."""

    @result.computed
    def replayed(self) -> bool:
        """Whether the kernel is correct, and its plan computes the same."""
        return self.evaluation.ok and self.evaluation.replay is not None and self.evaluation.replay.replayed

    @result.computed
    def remark(self) -> str:
        """Reason why the plan was not replayed; '' if it was."""
        if self.replayed:
            return ""
        found = self.evaluation
        return found.replay.reason if found.ok and found.replay else f"{found.status}: {found.message}"

    @property
    def exit_code(self) -> int:
        """1 if the replay does not compute what the reference does."""
        return 0 if self.replayed else 1

    def lines(self) -> Iterator[str]:
        """One line per step, then the result of the replay."""
        for number, line in enumerate(self.plan.all_lines() if self.plan else (), 1):
            yield f"{number:3} {line}"
        if self.replayed:
            yield "replayed: yes; it computes what the reference does, without the kernel's Python"
            if depends_on := self.evaluation.replay and self.evaluation.replay.depends_on:
                yield f"{depends_on}: this plan covers one set of them"
        else:
            yield f"replayed: no; {self.remark}"
        if self.saved:
            holds = self.replayed and not (self.evaluation.replay and self.evaluation.replay.depends_on)
            yield f"plan: {self.saved}" if holds else "no plan is written"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the kernel and its problem."""
    device = runtime.device(options)
    if options.save_plan is not None and options.save_plan.exists() and not options.save_plan.is_dir():
        raise OptionError(f"`save_plan`: {options.save_plan} is a file", "name a folder")
    job = runtime.job(options, options.kernel, device)
    return Plan(job, options.save_plan, runtime.local_evaluator(device, options))


def run(plan: Plan, emit: Emit) -> Result:
    """Check one kernel and make its launch plan."""
    job = plan.job
    with plan.open_evaluator() as evaluator, working(emit, f"recording {job.problem.id} on {job.device}"):
        evaluation, recorded = evaluator.plan(job.problem, job.kernel, plan.save_plan)
    return Result(job=job, plan=recorded, evaluation=evaluation, saved=plan.save_plan)
