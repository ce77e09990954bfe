"""Jobs: a kernel, its problem at the requested sizes, and a device; and a job's identity in the journal of its run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import (
    DEFAULT_WORKLOAD,
    DeviceError,
    FinishedRecord,
    JointProblem,
    Journal,
    JournalError,
    Kernel,
    KernelError,
    OptionError,
    ProblemError,
    RunRecord,
    Target,
    TorchProblem,
    TurnRecord,
    default_backend,
    read_journal,
    set_aside,
)
from ..core.environment import named_variables
from ..core.events import Emit, Warned
from ..core.journal import of
from ..core.user_package import needs_package
from ..corpus import find_kernel, find_problem, list_problems
from ..corpus.functions.target import is_function
from ..corpus.recorded import RecordedProblem
from ..evaluators.settings import AllowTorch, Precision, torch_for
from .devices import CPU, device_label
from .options.groups import FunctionOptions, ProblemOptions, parse_tolerance
from .options.trust import Conditions

if TYPE_CHECKING:
    from ..agent.turn import Turn
    from ..corpus.functions.translation import UserFunction


MOST_TOGETHER = 8
"""Maximum number of recorded workloads in a search, since each has its own processes and memory."""


@dataclass(frozen=True)
class Job:
    """A kernel, its problem at the requested sizes, and the device."""

    kernel: Kernel
    problem: TorchProblem
    device: str
    reference: str
    """How the user, or a list, named the kernel."""
    where: str = ""
    """The machines that evaluate the kernel, such as 'Modal H100'; empty for this one."""
    conditions: Conditions = Conditions()
    function: UserFunction | None = None
    """The user's function that the kernel was made of."""
    first: bool = False
    """Whether the kernel is a first kernel, made for a problem without one."""
    others: tuple[Kernel, ...] = ()
    """Slower first kernels, which a beam expands too."""

    @property
    def label(self) -> str:
        """The device's name in journals and folder names."""
        return self.where or device_label(self.device)

    @property
    def backend(self) -> str:
        """'tilelang_cpu', 'tilelang' or 'triton'."""
        return self.kernel.backend

    @property
    def in_words(self) -> str:
        """'level1/1_19 at tiny, 1_19.py (triton), on cuda', for `--dry-run`."""
        of = f"{self.problem.id} at {self.problem.workload}"
        return f"{of}, {self.reference} ({self.backend}), on {self.where or self.device}"

    @property
    def allow_torch(self) -> AllowTorch:
        """Which of torch's operators the kernels may call."""
        return torch_for(self.conditions.allow_torch, self.problem)

    @property
    def precision(self) -> Precision:
        """How exactly the reference computes."""
        return self.conditions.precision

    @property
    def beside_compile(self) -> bool:
        """Whether the result is compared with `torch.compile`: on request, and if that is the user's alternative."""
        return self.conditions.beside_compile or self.first

    @property
    def against(self) -> str:
        """The baseline of the target speedup; the reference without a target."""
        return self.conditions.against


def choose_backend(options: ProblemOptions, device: str) -> str:
    """Return the requested backend, or the device's own."""
    return options.backend or default_backend(Target.of_device(device))


def find_job(options: ProblemOptions, reference: str, device: str, where: str = "") -> Job:
    """Find and read the kernel and its problem. Raises `KernelwrightError` for all usage errors.

    `where` names the other machines that evaluate it.
    """
    if is_function(reference) and isinstance(options, FunctionOptions):
        return _job_of_function(options, reference, device, where)
    file = find_kernel(reference, choose_backend(options, device), options.dataset)
    kernel = file.read()
    if needs_package(kernel.source):
        raise KernelError(
            f"{reference} is the result for a function of a package; apply its patch, and name the function"
        )
    problem = find_problem(options.problem or file.problem, options.dataset).read()
    _require_runnable(kernel, reference, device)
    at = at_workload(problem, kernel.target, device, options.workload)
    return Job(kernel, at, device, reference, where, Conditions.of(options))


def named_problem(path: Path) -> str | None:
    """The problem that a kernel file says it solves, in its header or by its name: an id, or a path.

    None for a file that is not a kernel, such as a problem, which stands for the shipped kernel.
    """
    if "class ModelNew" not in path.read_text(errors="replace"):
        return None
    return find_kernel(str(path), default_backend(Target.CPU)).problem


def find_joint_job(options: ProblemOptions, reference: str, device: str, where: str, emit: Emit) -> Job:
    """Do the same for a search: without a workload, at most `MOST_TOGETHER` recorded ones are judged together."""
    job = find_job(options, reference, device, where)
    if options.workload is not None or not isinstance(job.problem, RecordedProblem):
        return job
    recorded = len(job.problem.recorded)
    if recorded > MOST_TOGETHER:
        warning = (
            f"{job.problem.id} has {recorded} Workloads, of which {MOST_TOGETHER} are judged, from the smallest to the "
            "largest; evaluate the result on all of them"
        )
        emit(Warned(warning))
    return replace(job, problem=JointProblem.of_all(job.problem, MOST_TOGETHER))


def _job_of_function(options: ProblemOptions, reference: str, device: str, where: str) -> Job:
    """Translate a user's function. It is judged at all its workloads, unless one is requested."""
    from ..corpus.functions.translation import translate

    assert isinstance(options, FunctionOptions)
    if options.problem is not None:
        raise OptionError("`problem` belongs to a kernel file", "a function has `reference` and `inputs`")
    function = translate(reference, options.reference, options.inputs, named_variables(options.env, os.environ))
    _require_runnable(function.kernel, reference, device, own=True)
    problem = function.problem if options.workload is None else function.problem.at(options.workload)
    if options.tolerance is not None:
        problem = problem.tolerating(*parse_tolerance(options.tolerance))
    return Job(function.kernel, problem, device, reference, where, Conditions.of(options), function)


def _require_runnable(kernel: Kernel, reference: str, device: str, own: bool = False) -> None:
    if not kernel.runs_on(Target.of_device(device)):
        if device != CPU:
            raise DeviceError(f"{reference} is a CPU kernel", "use `device` cpu")
        shipped = not own and not Path(reference).exists()
        imports = kernel.language.dialect(Target.CPU).imports.rpartition("\n")[2]
        hint = f"use `backend` {default_backend(Target.CPU)}" if shipped else f"a kernel for CPUs has `{imports}`"
        raise DeviceError(f"{reference} is a CUDA kernel, and the device is the CPU", hint)


def at_workload(problem: TorchProblem, target: Target, device: str, wanted: str | None) -> TorchProblem:
    """Return the problem at the requested sizes, for kernels of a target; by default its own on a GPU, and smaller ones
    on a CPU.

    A KernelBench file names no workloads. Where it has the same constants as the shipped problem of its number,
    that one's workloads serve. An interpreter gets the smallest sizes.
    """
    if wanted is not None:
        return problem.at(wanted)
    preferred = () if device != CPU else ("cpu",) if target is Target.CPU else ("tiny", "cpu")
    shipped = next((file.read() for file in list_problems() if file.id == problem.id), problem)
    for name in preferred:
        for source in (problem, shipped):
            if name in source.workloads:
                with contextlib.suppress(ProblemError):
                    return problem.resized(name, source.workloads[name])
    return problem.at(DEFAULT_WORKLOAD)


def require_timed(job: Job) -> None:
    """Raise `OptionError` for a kernel that the device can check but not time."""
    if job.kernel.target is not Target.of_device(job.device):
        raise OptionError(
            f"{job.reference}: a {job.kernel.language.name} kernel can be checked on a CPU but not timed, so it cannot "
            "be optimized",
            "use a CUDA device ('kernelwright evaluate' checks it)"
            if job.function is not None
            else f"use `backend` {default_backend(Target.CPU)}, or a CUDA device ('kernelwright evaluate' checks it)",
        )


def keep(journal: Journal, turn: Turn) -> None:
    """Record a turn, unless the resumed run did; a turn that was interrupted and is now complete is recorded again."""
    record = turn.record()
    what = ("number", "lane", "attempts", "kernel", "improved")  # a resumed run takes different times for the same turn
    if all(any(getattr(known, name) != getattr(record, name) for name in what) for known in journal.of(TurnRecord)):
        journal.append(record)


def run_record(job: Job, model: str) -> RunRecord:
    """Return the identity of a run."""
    return RunRecord(
        problem=job.problem.id,
        reference=job.problem.digest,
        sizes=job.problem.sizes_key,
        kernel=job.kernel.digest,
        device=job.label,
        # Results under other rules, or with another timing, do not apply to this run.
        allow_torch=job.allow_torch.value,
        graph=str(job.conditions.graph),
        precision=job.precision.value,
        against=job.against,
        proof=job.conditions.proof,
        versions="" if job.where else job.kernel.language.versions(),
        backend=job.backend,
        model=model,
    )


@contextlib.contextmanager
def open_journal(folder: Path, resume: bool, this: RunRecord) -> Iterator[Journal]:
    """Open the journal of a search in its folder; an earlier one is continued, or set aside.

    Raises `JournalError` for the journal of another search.
    """
    path = folder / "journal.jsonl"
    if not resume:
        set_aside(path)
    with Journal(path) as journal:
        same_run(journal, this)
        yield journal


def same_run(journal: Journal, this: RunRecord) -> None:
    """Write the run's identity, or raise `JournalError` for the journal of another run."""
    known = next(journal.of(RunRecord), None)
    if known is None:
        journal.append(this)
    elif different := known.changed(this):
        raise JournalError(
            f"{journal.path} is of another run: {', '.join(different)} changed", "leave `resume` out to start again"
        )


def earlier_summary(path: Path, job: Job, target: float | None) -> dict[str, Any] | None:
    """The summary of the same run, if it finished with a verified kernel and was not cut short; otherwise None."""
    records = read_journal(path) if path.exists() else []
    known, last = next(of(records, RunRecord), None), next(of(reversed(records), FinishedRecord), None)
    if known is None or last is None or known.changed(run_record(job, known.model)):
        return None
    done = last.verified and last.target_speedup == target and not last.cut_short
    return last.summary() if done else None
