"""The result for a function of the user's own: a patch of its files, entries of Triton's cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..core import Evaluation, Kernel, KernelError, PythonKernel
from .jobs import Job
from .observers import Observer
from .options.groups import ReturnOptions


def bring_back(
    options: ReturnOptions, job: Job, kernel: Kernel, best: Evaluation, tried: Sequence[Evaluation], observer: Observer
) -> Path | None:
    """Write what the options ask for; return the patch.

    `best` has the config of the winner, `kernel` is bound to it, and `tried` are all evaluations of its code. Raises
    `KernelError` where the result has no place in the user's files.
    """
    from .patches import untried, worthwhile, write_patch
    from .triton_cache import enter_timings
    from .workload_keys import workload_keys

    function = job.function
    assert function is not None and isinstance(kernel, PythonKernel)
    files: dict[Path, str] = {}
    if options.patch is not None:
        configs = worthwhile(best, tried, workload_keys(function, job.problem))
        configs += untried(function.kernel.declared_configs, [best, *tried])
        files = write_patch(options.patch, function, kernel, configs)
        if not files:
            observer.note("the result differs from the function's files in nothing; the patch is empty")
    if options.triton_cache:
        if not same_but_config(job.kernel, kernel):
            raise KernelError(
                f"the result changes code of {function.target}, which must not run unread to reach Triton's cache; "
                "apply its patch, and tune with `triton_cache` then"
            )
        entered = enter_timings(function, job.problem, [best, *tried], files)
        observer.note(f"entered into Triton's cache: {', '.join(map(str, entered))}")
    return options.patch


def faster_at_some(job: Job, start: Evaluation, tried: Sequence[Evaluation]) -> bool:
    """Return whether the function's autotuner gains by a config that was tried, at workloads that its key tells apart.

    No config need be faster than the start at all of them: an autotuner chooses one for each. `start` has its config.
    """
    from .patches import undeclared, worthwhile
    from .workload_keys import workload_keys

    if job.function is None or not (declared := job.function.kernel.declared_configs):
        return False
    more = worthwhile(start, tried, workload_keys(job.function, job.problem))[1:]
    return bool(undeclared(more, declared))


def same_but_config(one: Kernel, bound: Kernel) -> bool:
    """Return whether two kernels differ in the values of their parameters only."""
    try:
        return one.bind(bound.config).source == bound.source
    except KernelError:
        return False
