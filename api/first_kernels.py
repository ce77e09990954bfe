"""First kernels: what `optimize` begins with where a problem has none."""

from __future__ import annotations

from pathlib import Path

from ..core import (
    DeviceError,
    Kernel,
    KernelError,
    OptionError,
    ProblemError,
    PythonKernel,
    Target,
    TorchProblem,
    default_backend,
)
from ..core.files import write_whole
from ..corpus import find_kernel, find_problem
from ..corpus.functions.target import is_function
from ..evaluators.local import LocalEvaluator
from .devices import CPU
from .jobs import at_workload, choose_backend
from .observers import Observer
from .options.groups import Backend, ProblemOptions

INSTEAD = "write a kernel file for it, see docs/kernels.md, and name that"


def problem_without_kernel(options: ProblemOptions, reference: str, device: str) -> TorchProblem | None:
    """Return the problem that a reference names, at the requested sizes, where there is no kernel for it; else None.

    Raises `KernelError` for a reference that names neither, and `DeviceError` or `OptionError` where no first kernel
    can be made.
    """
    if is_function(reference):
        return None
    try:
        find_kernel(reference, choose_backend(options, device), options.dataset)
        return None
    except KernelError as missing:
        try:
            problem = find_problem(options.problem or reference, options.dataset).read()
        except ProblemError:
            raise missing from None
    if device == CPU:
        raise DeviceError(
            f"{problem.id} has no {default_backend(Target.CPU)} kernel, and a first one is made only on a GPU, of "
            "torch.compile's Triton code",
            INSTEAD,
        )
    if options.backend not in (None, Backend.TRITON):
        raise OptionError(f"{problem.id} has no {options.backend} kernel; a first one is in Triton", INSTEAD)
    return at_workload(problem, Target.CUDA, device, options.workload)


def first_kernel_of(
    problem: TorchProblem, evaluator: LocalEvaluator, path: Path, resume: bool, observer: Observer
) -> Kernel:
    """Make a kernel file of torch.compile's code for a problem and write it to `path`; a resumed run reads it there.

    Raises `KernelError`, with the reason, where there is none.
    """
    if resume and path.exists():
        return PythonKernel.parse(path.read_text(), str(path))
    from ..agent.first_kernels.from_inductor import first_kernel
    from ..agent.first_kernels.obstacle import Obstacle

    with observer.working(f"{problem.id} has no kernel: torch.compile writes one"):
        code = evaluator.generated_code(problem)
        try:
            if isinstance(code, str):
                raise Obstacle(code)
            kernel = first_kernel(problem, code)
        except Obstacle as obstacle:
            raise KernelError(
                f"{problem.id} has no kernel, and torch.compile's code gives none: {obstacle}; {INSTEAD}"
            ) from None
    write_whole(path, kernel.source, "choose another folder with `results`")
    observer.note(f"first kernel: {path}")
    return kernel
