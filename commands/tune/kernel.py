"""Search the parameters of a Triton or TileLang kernel, and write the best config into a copy of it.

Exit codes: 0 a config is faster, 1 no config was correct, 2 wrong usage, 3 nothing faster was found.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...core import (
    Budget,
    Config,
    Evaluator,
    Kernel,
    OptionError,
    Profile,
    ResultsError,
    SearchSpace,
    SpaceError,
    Tuner,
    Value,
)
from ...core.events import Emit, Finished, Note, SearchStarted, Warned, working
from ...core.extras import require_extra
from ...core.space_inference import named_sizes
from ...core.workload_rows import WorkloadKeys
from ...evaluators.several_workloads import SeveralWorkloads, merged_profile
from ...evaluators.waiting import WorkingClock
from ...runtime import command
from ...runtime.devices import CPU
from ...runtime.evaluators import Searcher, at_workloads
from ...runtime.jobs import Job, open_journal, require_timed, run_record
from ...runtime.options.groups import OUTPUT, SEARCH, WHERE, MachineOptions, ProblemOptions, ReturnOptions, SaveOptions
from ...runtime.options.option import described, option
from ...runtime.options.trust import SanitizeOptions, TimingOptions
from ...runtime.runtime import OpenSearcher, Runtime
from ...runtime.write_result import (
    NOTHING,
    PatchDestination,
    distinguishing_keys,
    save_solution,
    select_autotune_configs,
    write_result,
)
from ...tuners import catalogue
from ...tuners.by_launch.creation import tuner_for
from ...tuners.by_launch.tuner import ByLaunch
from ...tuners.discovery import FoundSpace, parse_params, space_of
from ...tuners.formats import read_recording
from ...tuners.per_workload import per_workload
from ...tuners.search import Search
from ...tuners.source_products import seen_in
from ._kernel_result import Result as Result

EXAMPLES = (
    "tune kernel 1_1 --trials 100",
    "tune kernel my_kernel.py --problem 1_1 --param BLOCK_M=32,64,128 --seconds 60 --plot",
)
AGENTS = ("kernel", "params", "constraint", "problem", "workload", "backend", "reference", "inputs", "tuner", "seed")
SPACE = "Search space"
TRIALS = 200
"""Default limit of a search whose tuner does not end by itself."""


@dataclass(frozen=True, kw_only=True)
class Options(SaveOptions, TimingOptions, SanitizeOptions, MachineOptions, ProblemOptions, ReturnOptions):
    """Search the parameters of a kernel."""

    kernel: str = field(
        kw_only=False,
        metadata=described(
            "Kernel to tune: a path, level1/1_1.py, 1_1, or a function FILE::NAME.", metavar="REF", argument=True
        ),
    )
    params: Mapping[str, Sequence[Any]] | Sequence[str] | None = option(
        None, "A parameter and its values; replaces a declared one.", SPACE, metavar="NAME=A,B,C", texts=True
    )
    """Values by name, `{"BLOCK_M": [32, 64]}`, or texts such as 'BLOCK_M=32,64' from a command line."""
    constraint: tuple[str, ...] = option((), "An expression that every config must satisfy.", SPACE, metavar="EXPR")
    prune: bool = option(True, "Keep configs that the device cannot run.", SPACE)
    tuner: str = option("portfolio", "{choices}.", SEARCH, choices=catalogue.choices)
    stride: int | None = option(None, "With --tuner grid: every N-th config first.", SEARCH, metavar="N", at_least=1)
    trials: int | None = option(None, "At most this many configs; by default 200, for grid all.", SEARCH, at_least=1)
    seconds: float | None = option(None, "Start no trials after this time.", SEARCH, above=0)
    patience: int | None = option(None, "Stop after this many trials without a better one.", SEARCH, at_least=1)
    seed: int = option(0, "Random seed of the tuner.", SEARCH)
    warm: tuple[Path, ...] = option(
        (), "A journal or recording of the same parameters from another device or shape.", SEARCH, metavar="FILE"
    )
    device: str = option("auto", "cpu, cuda, cuda:N, or several GPUs: cuda:0,cuda:1.", WHERE)
    compilers: int | None = option(
        None,
        "Processes that compile, per device; by default its share of the cores, or half of it on a GPU where the next "
        "choice depends on the last result.",
        WHERE,
        at_least=1,
        trusted=True,
    )
    compile_limit: float = option(120.0, "Seconds after which a compilation is ended.", WHERE, above=0, trusted=True)
    plot: bool = option(False, "Write the convergence curve as PNG.", OUTPUT)

    @property
    def budget(self) -> Budget:
        """When the search ends."""
        trials = None if catalogue.exhaustive(self.tuner) else TRIALS
        return Budget(trials=trials if self.trials is None else self.trials, seconds=self.seconds)

    def check(self) -> None:
        """Raise `OptionError` for options that contradict each other."""
        super().check()
        catalogue.check(self.tuner)
        if self.stride is not None and not catalogue.exhaustive(self.tuner):
            raise OptionError(f"`stride` is for the grid, and the tuner is {self.tuner}", "use `tuner` grid")
        if self.plot:
            require_extra("`plot`", "matplotlib", "plots")


@dataclass(frozen=True)
class Plan(command.Plan):
    """A search, and the places of its result."""

    job: Job
    devices: list[str]
    params: Mapping[str, Sequence[Value]]
    """Parameters in place of declared ones."""
    constraint: tuple[str, ...]
    prune: bool
    """Whether configs that the device cannot run are left out."""
    tuner: str
    seed: int
    stride: int
    budget: Budget
    patience: int | None
    folder: Path
    resume: bool
    save: bool
    plot: bool
    dataset: Path | None
    """Dataset for a faster kernel as a Solution."""
    destination: PatchDestination | None = field(metadata=command.NOT_SHOWN)
    warm: list[tuple[Config, float | None]] = field(metadata=command.NOT_SHOWN)
    """Known times of configs from other sources, in milliseconds."""
    open_evaluator: OpenSearcher = field(metadata=command.NOT_SHOWN)


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the kernel, and check everything that needs no measurement."""
    params = parse_params(options.params)
    devices = runtime.devices(options)
    opened = runtime.searcher(devices, options, options.tuner, options.compile_limit, options.compilers)
    job = runtime.joint_job(options, options.kernel, devices[0])
    require_timed(job)
    # Most mistakes are found now; the extents of the matrix product are known with the profile.
    space = space_of(job.kernel, params, options.constraint, named_sizes(job.problem), profiled=False)
    return Plan.of(
        options,
        job=job,
        devices=devices,
        params=params,
        stride=options.stride or 1,
        folder=results_folder(options.results, job),
        destination=PatchDestination.of(options, job),
        warm=[pair for path in options.warm for pair in _warmth(path, job.kernel, space.space, runtime.emit)],
        open_evaluator=opened,
    )


def run(plan: Plan, emit: Emit) -> Result:
    """Search and write the result, also after an interruption."""
    job, clock = plan.job, WorkingClock()
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(open_journal(plan.folder, plan.resume, run_record(job, plan.tuner)))
        evaluator = at_workloads(partial(plan.open_evaluator, clock=clock), stack)
        profiles, keys = _looked_at(plan, evaluator, emit)
        space, start = _searched_space(plan, profiles)
        sets = keys.sets
        tuner = _tuner(plan, space.space, start, profiles, sets)
        search = Search(
            job.problem, job.kernel, space.space, tuner, evaluator, journal, plan.budget, emit, plan.patience, clock,
            workload_sets=sets,
        )  # fmt: skip
        tuned = partial(
            Result, job=job, space=space, folder=plan.folder, save=plan.save, tuner=plan.tuner, seed=plan.seed
        )
        emit(
            SearchStarted(
                job.reference, space.origin, space.space, space.count, space.ruled_out, space.rules, plan.budget
            )
        )
        if isinstance(tuner, ByLaunch):
            emit(Note(f"searched per launch: {tuner}"))
        try:
            found = search.run()
        except BaseException as error:
            # Without a trial of its own, this run does not overwrite the files of an earlier one.
            if search.progress.trials > search.progress.recalled:
                why = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__
                with contextlib.suppress(ResultsError, SpaceError):
                    tuned(found=search.so_far(why)).write(plan.plot)
            raise
        finally:
            emit(Finished())
        result = tuned(found=found)
        result.write(plan.plot)
        return _handed_on(plan, result, keys, evaluator, emit)


def _looked_at(
    plan: Plan, evaluator: SeveralWorkloads[Searcher], emit: Emit
) -> tuple[dict[str, Profile], WorkloadKeys]:
    """Return the profile of each workload, and the sizes that distinguish workloads in a user's function."""
    job = plan.job
    loading = threading.Thread(target=catalogue.preload, args=(plan.tuner,), daemon=True)
    with (
        working(emit, f"looking at {job.problem.id} on {job.where or ', '.join(plan.devices)}"),
        ThreadPoolExecutor(1, "keys") as beside,
    ):
        loading.start()
        reading = beside.submit(distinguishing_keys, plan.destination, job)
        profiles = {name: seen_in(profile, job.kernel) for name, profile in evaluator.profiles(job.problem).items()}
        keys = reading.result()
        loading.join()
    return profiles, keys


def _searched_space(plan: Plan, profiles: Mapping[str, Profile]) -> tuple[FoundSpace, list[Config]]:
    """Return the space, and the kernel's own configs in it."""
    kernel, profile = plan.job.kernel, merged_profile(list(profiles.values()))
    found = space_of(kernel, plan.params, plan.constraint, named_sizes(plan.job.problem, profile))
    start = [Config({name: kernel.config[name] for name in found.space.names}), *kernel.configs_in(found.space)]
    return found.on_device(kernel, profile, start) if plan.prune else found, start


def _tuner(
    plan: Plan,
    space: SearchSpace,
    start: Sequence[Config],
    profiles: Mapping[str, Profile],
    sets: Sequence[Sequence[str]],
) -> Tuner:
    """Return the tuner, or one with a tuner for each set of workloads."""

    def make(names: Sequence[str]) -> Tuner:
        # Tiles for one decoded token do not predict those for a prompt.
        there = merged_profile([profiles[name] for name in names] if names else list(profiles.values()))
        create = catalogue.create_tuner if len(profiles) > 1 else partial(tuner_for, plan.job.kernel)
        return create(plan.tuner, space, plan.seed, plan.warm, start, there, plan.stride)

    return per_workload(make, sets) if catalogue.adaptive(plan.tuner) else make(())


def _handed_on(plan: Plan, tuned: Result, keys: WorkloadKeys, evaluator: Evaluator, emit: Emit) -> Result:
    """Write a faster kernel into its dataset, or as a patch of the user's package."""
    found, job = tuned.found, plan.job
    if tuned.kernel_path is not None and found.best is not None:
        kernel = job.kernel.bind(found.best.config)
        solution = save_solution(plan.dataset, job, kernel, found.best, emit)
        tuned = tuned.model_copy(update={"solution": solution})
    if plan.destination is None:
        return tuned
    best = found.best if tuned.faster and not tuned.unproven else tuned.own_constants
    if best is None:
        emit(Note(NOTHING))
        return tuned
    bound, tried = job.kernel.bind(best.config), [*found.evaluations, *found.finals]
    configs = select_autotune_configs(best, tuned.compared, keys.autotuner)
    patch = write_result(
        plan.destination, job, bound, best, configs, tried, evaluator, emit, tuned.compared, keys.autotuner
    )
    return tuned.model_copy(update={"patch": patch})


def _warmth(path: Path, kernel: Kernel, space: SearchSpace, emit: Emit) -> list[tuple[Config, float | None]]:
    """Return a recording's times for the configs of a space."""
    recording = read_recording(path)
    if recording.kernel not in (None, kernel.digest):
        emit(Warned(f"`warm` {path} is of another kernel ({recording.kernel}), so it only seeds the search"))
    return recording.within(space)


def results_folder(root: Path, job: Job) -> Path:
    """Return the folder of searches of a kernel at a workload on a device."""
    problem = job.problem
    device = CPU if (job.device, job.where) == (CPU, "") else _slug(job.label)
    # A dataset may have other sizes under the same workload's name.
    workload = f"{_slug(problem.workload)[:24]}-{problem.sizes_digest[:6]}"
    return root / "tuning" / f"{problem.id}_{job.backend}_{job.kernel.digest[:6]}_{device}_{workload}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())
