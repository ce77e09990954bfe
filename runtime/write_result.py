"""Writes results back to their source: a patch of the user's files, entries of Triton's cache, a dataset's Solution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ..core import Config, Evaluation, Evaluator, JointProblem, Kernel, KernelError, PythonKernel
from ..core.events import Emit, Note, Warned
from ..core.workload_rows import WorkloadKeys, configs_by_workload
from ..corpus.functions.triton_cache import enter_timings, workload_keys
from ..corpus.recorded import RecordedProblem, TraceDataset, solution_of
from ..evaluators.sizes_in_scope import ValuesBySize, size_keys, values_by_size
from .jobs import Job
from .options.groups import ReturnOptions

AUTHOR = "kernelwright"
NOTHING = "no speedup found; no patch written"


@dataclass(frozen=True)
class PatchDestination:
    """Where a result is written in the user's own package."""

    patch: Path | None = None
    """The file of a change for 'git apply'."""
    triton_cache: bool = False
    """Whether tuned configs are entered into Triton's cache on disk."""

    @classmethod
    def of(cls, options: ReturnOptions, job: Job) -> PatchDestination | None:
        """Return the requested destination; None if the kernel is not a function, or nothing is requested."""
        way = cls(options.patch, options.triton_cache)
        return way if job.function is not None and way != cls() else None


def distinguishing_keys(destination: PatchDestination | None, job: Job) -> WorkloadKeys:
    """Return what distinguishes workloads in a job's function; nothing if no configs are written back."""
    if destination is None or job.function is None:
        return WorkloadKeys()
    tuned = workload_keys(job.function, job.problem) if job.function.kernels else {}
    return WorkloadKeys(tuned, size_keys(job.function, job.problem) if job.function.launched else {})


def write_result(
    way: PatchDestination,
    job: Job,
    kernel: Kernel,
    best: Evaluation,
    configs: Sequence[Config],
    tried: Sequence[Evaluation],
    evaluator: Evaluator,
    emit: Emit,
    compared: Sequence[Evaluation] = (),
    autotuner: Mapping[str, str] = MappingProxyType({}),
) -> Path | None:
    """Write the result as requested. Return the patch, which is offered only if the patched package passes the check.

    `best` has the config of the winner, `kernel` is bound to it, and `tried` are all evaluations of its code. `configs`
    are for an autotuner (`select_autotune_configs`), and may help even if the winner is the original function. What
    launches take from the configs in `compared` that are faster at some workloads stands there by size, beside the keys
    of an `autotuner`.
    Raises `KernelError` if the result cannot be mapped to the user's files.
    """
    function = job.function
    assert function is not None and isinstance(kernel, PythonKernel)
    own = function.kernel.declared_configs
    # Only the user's own code runs for this, with other constants.
    unchanged = same_but_config(job.kernel, kernel)
    found = values_by_size(function, job.problem, best, compared, autotuner) if unchanged else ValuesBySize()
    by_place = found.by_place
    if found.said:
        emit(Note(found.said))
    if by_place and function.kernels:
        if all(item.correct for item in evaluator.evaluate(job.problem, job.kernel, found.combined(function))):
            configs, own = found.configs, []  # others were not tried with values by size
        else:
            by_place = {}
            emit(Note("values by size are wrong together with the autotuner's configs; all sizes get one value"))
    if kernel.digest == job.kernel.digest and not by_place and not (own and undeclared(configs[1:], own)):
        emit(Note(NOTHING))
        return None
    files: dict[Path, str] = {}
    if way.patch is not None:
        from ..corpus.functions.patch import write_patch  # most commands need none of it

        autotuned = [*configs, *untried(own, [best, *tried])]
        files = write_patch(way.patch, function, kernel, autotuned, evaluator, job.problem, by_place)
        if not files:
            emit(Note("the result does not differ from the function's files; the patch is empty"))
    if way.triton_cache:
        if not unchanged:
            raise KernelError(
                f"the result changes code of {function.target}, which you must read before it may fill Triton's cache; "
                "apply its patch, and tune with `triton_cache` then"
            )
        entered = enter_timings(function, job.problem, [best, *tried], files)
        emit(Note(f"entered into Triton's cache: {', '.join(map(str, entered))}"))
    return way.patch


def same_but_config(kernel: Kernel, bound: Kernel) -> bool:
    """Return whether two kernels differ in the values of their parameters only."""
    try:
        return kernel.bind(bound.config).source == bound.source
    except KernelError:
        return False


def save_solution(dataset: Path | None, job: Job, kernel: Kernel, best: Evaluation, emit: Emit) -> Path | None:
    """Write a kernel as a Solution and return its path; None if the problem is not a recorded workload.

    A language without a name in the dataset is a warning only, since the kernel file is written anyway.
    """
    judged = list(job.problem.members.values()) if isinstance(job.problem, JointProblem) else [job.problem]
    recorded = all(isinstance(item, RecordedProblem) for item in judged)
    if dataset is None or not recorded or not isinstance(kernel, PythonKernel):
        return None
    assert best.speedup is not None
    traces = TraceDataset.read(dataset)
    device = best.environment.get("device", job.label)
    description = (
        f"{best.speedup.ratio:.3f} times as fast as the reference on {device}, "
        f"for the Workload{'s' if len(judged) > 1 else ''} {', '.join(item.workload for item in judged)}; "
        f"made from {job.kernel.name}"
    )
    try:
        definition = traces.definitions[job.problem.id]
        return traces.add_solution(
            solution_of(kernel, definition, AUTHOR, device, description, traces.is_sol(definition.name))
        )
    except KernelError as error:
        emit(Warned(f"no Solution is written: {error}"))
        return None


def select_autotune_configs(
    best: Evaluation, evaluations: Sequence[Evaluation], keys: Mapping[str, str]
) -> list[Config]:
    """Return the configs for an autotuner: the best one, and configs that are faster at some workloads.

    An autotuner chooses one config for all workloads with equal `keys`. A config is taken only if it is faster there by
    more than noise.
    """
    return list(dict.fromkeys([Config(best.config), *configs_by_workload(best, evaluations, keys).values()]))


def undeclared(configs: Sequence[Config], declared: Sequence[Config]) -> list[Config]:
    """Return the configs that are none of the user's own."""
    return [config for config in configs if not any(_agrees(config, own) for own in declared)]


def untried(declared: Sequence[Config], evaluations: Sequence[Evaluation]) -> list[Config]:
    """Return the user's own configs that were not measured: an autotuner may find one of them faster."""
    return [
        item
        for item in declared
        if not any(_agrees(item, Config(other.config)) for other in evaluations if other.config)
    ]


def _agrees(first: Config, second: Config) -> bool:
    """Return whether `first` has all values of `second`."""
    return all(first.get(name) == value for name, value in second.items())
