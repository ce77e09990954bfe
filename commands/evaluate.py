"""Check a kernel against its reference and time it, once.

Exit codes: 0 it is correct, 1 it is not or is unproven, 2 wrong usage.
"""

from __future__ import annotations

import contextlib

from ..core.events import Emit, working
from ..evaluators.kernelbench.run_folder import RunFolder, Sample
from ..runtime.evaluators import at_workloads
from ..runtime.runtime import Runtime
from ._evaluate import Options as Options
from ._evaluate import folder as run_folders
from ._evaluate import solution as solutions
from ._evaluate.folder import FolderPlan as FolderPlan
from ._evaluate.folder import FolderResult as FolderResult
from ._evaluate.solution import SolutionPlan as SolutionPlan
from ._evaluate.solution import SolutionResult as SolutionResult
from ._evaluate.verdict import EvaluationSubject, KernelJudge, Plan, protocols_of, strict_result
from ._evaluate.verdict import Result as Result

EXAMPLES = (
    "evaluate 1_19",
    "evaluate my_kernel.py --problem 2_12 --baseline compile",
    "evaluate 1_19 --protocol both --json",
)
AGENTS = ("kernel", "problem", "workload", "backend", "reference", "inputs", "baseline")


def plan(options: Options, runtime: Runtime) -> Plan | FolderPlan | SolutionPlan:
    """Find the kernel, the kernels of a run folder, or a Solution with its Workloads."""
    if options.kernel is None:
        return run_folders.plan(options, runtime)
    if solutions.is_solution(options):
        return solutions.plan(options, runtime)
    return plan_kernel(options, options.kernel, runtime)


def plan_kernel(options: Options, kernel: str, runtime: Runtime) -> Plan:
    """Find the kernel and its problem, and the place of its result."""
    device = runtime.device(options)
    job = runtime.job(options, kernel, device)
    folder = RunFolder(options.run_folder) if options.run_folder else None
    sample = Sample.of(job.problem, options.sample_id or 0) if folder else None
    if folder and sample:
        folder.check(sample)
    return Plan(job, protocols_of(options), folder, sample, runtime.evaluator(device, options))


def run(plan: Plan | FolderPlan | SolutionPlan, emit: Emit) -> Result | FolderResult | SolutionResult:
    """Evaluate what was planned. Results of a run folder or a dataset are stored at once."""
    if isinstance(plan, FolderPlan):
        return run_folders.run(plan, emit)
    if isinstance(plan, SolutionPlan):
        return solutions.run(plan, emit)
    return run_kernel(plan, emit)


def run_kernel(plan: Plan, emit: Emit) -> Result:
    """Evaluate one kernel."""
    job = plan.job
    with contextlib.ExitStack() as stack:
        judge = KernelJudge(plan.protocols, at_workloads(plan.open_evaluator, stack))
        with working(emit, f"evaluating {job.problem.id} on {job.where or job.device}"):
            verdict = judge.verdict(EvaluationSubject(job.problem, job.kernel.source, job))
    if plan.run_folder and plan.sample and verdict.result:
        plan.run_folder.add(plan.sample, job.problem, job.kernel.source, verdict.result, strict_result(verdict))
    return verdict
