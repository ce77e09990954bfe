"""The result for a function of the user's own: a patch of its files, entries of Triton's cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core import Config, Evaluation, Kernel, KernelError, PythonKernel
from ..core.events import Emit, Note
from .jobs import Job
from .options.groups import ReturnOptions


@dataclass(frozen=True)
class WayBack:
    """What becomes of a result in the user's own package."""

    patch: Path | None = None
    """The file of a change for 'git apply'."""
    triton_cache: bool = False
    """Whether tuned configs are entered into Triton's cache on disk."""

    @classmethod
    def of(cls, options: ReturnOptions, job: Job) -> WayBack | None:
        """Return what the options ask for; None where the kernel is no function, or nothing is asked for."""
        way = cls(options.patch, options.triton_cache)
        return way if job.function is not None and way != cls() else None


NOTHING = "nothing became faster, so there is nothing to bring back"


def bring_back(
    way: WayBack,
    job: Job,
    kernel: Kernel,
    best: Evaluation,
    configs: Sequence[Config],
    tried: Sequence[Evaluation],
    emit: Emit,
) -> Path | None:
    """Bring a result back; return the patch.

    `best` has the config of the winner, `kernel` is bound to it, and `tried` are all evaluations of its code. `configs`
    are what an autotuner should choose from (`patches.worthwhile`): where the winner is the function as it was, it may
    still gain by them. Raises `KernelError` where the result has no place in the user's files.
    """
    from .patches import undeclared, untried, write_patch
    from .triton_cache import enter_timings

    function = job.function
    assert function is not None and isinstance(kernel, PythonKernel)
    own = function.kernel.declared_configs
    if kernel.digest == job.kernel.digest and not (own and undeclared(configs[1:], own)):
        emit(Note(NOTHING))
        return None
    files: dict[Path, str] = {}
    if way.patch is not None:
        files = write_patch(way.patch, function, kernel, [*configs, *untried(own, [best, *tried])])
        if not files:
            emit(Note("the result differs from the function's files in nothing; the patch is empty"))
    if way.triton_cache:
        if not same_but_config(job.kernel, kernel):
            raise KernelError(
                f"the result changes code of {function.target}, which must not run unread to reach Triton's cache; "
                "apply its patch, and tune with `triton_cache` then"
            )
        entered = enter_timings(function, job.problem, [best, *tried], files)
        emit(Note(f"entered into Triton's cache: {', '.join(map(str, entered))}"))
    return way.patch


def same_but_config(one: Kernel, bound: Kernel) -> bool:
    """Return whether two kernels differ in the values of their parameters only."""
    try:
        return one.bind(bound.config).source == bound.source
    except KernelError:
        return False
