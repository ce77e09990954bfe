"""`tune`: search the parameters of one kernel."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..core import Config, Journal, Kernel, ResultsError, SearchSpace, SpaceError, Tuner, Value, set_aside
from ..core.events import Emit, Finished, Note, SearchStarted, Warned, working
from ..core.space_inference import named_sizes
from ..core.syntax_tree import literal
from ..core.workload_rows import workloads_by_key
from ..evaluators.remote.machines import Remote
from ..evaluators.several_workloads import merged_profile
from ..evaluators.waiting import WorkingClock
from ..tuners import catalogue
from ..tuners.discovery import space_of
from ..tuners.formats import read_recording
from ..tuners.hardware import prune
from ..tuners.per_workload import per_workload
from ..tuners.search import Found, Search
from ..tuners.source_products import seen_in
from .bring_back import NOTHING, bring_back
from .devices import CPU, choose_devices
from .evaluators import at_workloads, joined, search_evaluator
from .jobs import Job, find_joint_job, require_timed
from .options.tune import TuneOptions
from .run_journal import same_run
from .solutions import save_solution
from .tuned import TuneResult, count, ruled_out

_PARAM = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.+)")


def run_tune(options: TuneOptions, emit: Emit) -> TuneResult:
    """Search, and write the result, also that of an interrupted search."""
    with joined(options) as remote:
        return _tune(options, remote, emit)


def _tune(options: TuneOptions, remote: Remote | None, emit: Emit) -> TuneResult:
    given = parse_params(options.params)
    devices = choose_devices(options, remote)
    job = find_joint_job(options, options.kernel, devices[0], remote, emit)
    require_timed(job)
    # Most mistakes are found now; the extents of the matrix product are known with the profile.
    space = space_of(job.kernel, given, options.constraint, named_sizes(job.problem), profiled=False)
    warm = [pair for path in options.warm for pair in _warmth(path, job.kernel, space.space, emit)]
    folder = results_folder(options.results, job)
    if not options.resume:
        set_aside(folder / "journal.jsonl")
    adaptive = catalogue.adaptive(options.tuner)
    with (
        Journal(folder / "journal.jsonl") as journal,
        contextlib.ExitStack() as stack,
    ):
        clock = WorkingClock()
        made = partial(
            search_evaluator, devices, options.compilers, adaptive, options.compile_limit, options, remote, clock=clock
        )
        evaluator = at_workloads(made, stack)
        same_run(journal, job, options.tuner)
        loading = threading.Thread(target=catalogue.preload, args=(options.tuner,), daemon=True)
        with (
            working(emit, f"looking at {job.problem.id} on {job.where or ', '.join(devices)}"),
            ThreadPoolExecutor(1, "keys") as beside,
        ):
            loading.start()
            reading = beside.submit(autotuner_keys, options, job)
            profiles = {name: seen_in(one, job.kernel) for name, one in evaluator.profiles(job.problem).items()}
            keys = reading.result()
            loading.join()
        profile = merged_profile(list(profiles.values()))
        space = space_of(job.kernel, given, options.constraint, named_sizes(job.problem, profile))
        start = [
            Config({name: job.kernel.config[name] for name in space.space.names}),
            *job.kernel.configs_in(space.space),
        ]
        pruned, rules = prune(space.space, job.kernel, profile, start) if options.prune else (space.space, [])

        def make(names: Sequence[str]) -> Tuner:
            # Tiles for one decoded token say nothing of those for a prompt.
            there = merged_profile([profiles[name] for name in names]) if names else profile
            stride = options.stride or 1
            return catalogue.create(options.tuner, pruned, options.seed, warm, start, there, stride)

        sets = workloads_by_key(keys)
        tuner = per_workload(make, sets) if adaptive else make(())
        budget = options.budget
        more: dict[str, Any] = {"patience": options.patience, "workload_sets": sets, "clock": clock}
        search = Search(job.problem, job.kernel, pruned, tuner, evaluator, journal, budget, emit, **more)

        def result(found: Found) -> TuneResult:
            return TuneResult(job, options.tuner, options.seed, space, pruned, found, folder, options.save)

        emit(
            SearchStarted(
                options.kernel, space.origin, pruned, count(pruned), ruled_out(space, pruned), tuple(rules), budget
            )
        )
        try:
            found = search.run()
        except BaseException as error:
            # Without a trial of its own, this run has nothing to put over what an earlier one left.
            if search.progress.trials > search.progress.recalled:
                why = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__
                with contextlib.suppress(ResultsError, SpaceError):
                    result(search.so_far(why)).write(options.plot)
            raise
        finally:
            emit(Finished())
    tuned = result(found)
    tuned.write(options.plot)
    if tuned.kernel_path is not None and found.best is not None:
        kernel = job.kernel.bind(found.best.config)
        tuned = replace(tuned, solution=save_solution(options.dataset, job, kernel, found.best, emit))
    if not _comes_back(options, job):
        return tuned
    best = found.best if tuned.faster and not tuned.unproven else tuned.own_constants
    if best is None:
        emit(Note(NOTHING))
        return tuned
    from .patches import worthwhile  # with it comes libcst

    kernel, tried = job.kernel.bind(best.config), [*found.evaluations, *found.finals]
    configs = worthwhile(best, tuned.compared, keys)
    return replace(tuned, patch=bring_back(options, job, kernel, best, configs, tried, emit))


def _comes_back(options: TuneOptions, job: Job) -> bool:
    """Whether the result goes back to a function of the user's own."""
    return job.function is not None and bool(options.patch or options.triton_cache)


def autotuner_keys(options: TuneOptions, job: Job) -> dict[str, str]:
    """What the function's autotuner tells its workloads apart by; nothing where it has none, or gets no configs."""
    if job.function is None or not job.function.kernels or not _comes_back(options, job):
        return {}
    from .workload_keys import workload_keys

    return workload_keys(job.function, job.problem)


def _warmth(path: Path, kernel: Kernel, space: SearchSpace, emit: Emit) -> list[tuple[Config, float | None]]:
    """Return a recording's times for the configs of a space."""
    recording = read_recording(path)
    if recording.kernel not in (None, kernel.digest):
        emit(Warned(f"`warm` {path} is of another kernel ({recording.kernel}), so it only seeds the search"))
    return recording.within(space)


def parse_params(given: Mapping[str, Sequence[Value]] | Sequence[str] | None) -> dict[str, list[Value]]:
    """Names and their values, from these or from texts such as 'BLOCK_M=32,64,128'; `SpaceError` for other texts."""
    if isinstance(given, Mapping):
        return {name: list(values) for name, values in given.items()}
    found: dict[str, list[Value]] = {}
    for text in [given] if isinstance(given, str) else given or ():
        match = _PARAM.fullmatch(text)
        if match is None:
            raise SpaceError(f"`params` {text!r} names no values; write it as BLOCK_M=32,64,128")
        if match[1] in found:
            raise SpaceError(f"`params` {match[1]} is given twice; give all its values at once")
        found[match[1]] = [_value(part.strip(), text) for part in match[2].split(",")]
    return found


def _value(text: str, whole: str) -> Value:
    if not text:
        raise SpaceError(f"`params` {whole!r} has an empty value; write it as BLOCK_M=32,64,128")
    try:
        value = literal(text)
    except (ValueError, SyntaxError):
        if re.search(r"[()\[\]{}]", text):
            raise SpaceError(f"`params` {whole!r}: a value is a number or a text without brackets") from None
        return text
    return value if isinstance(value, int | float | str) else text


def results_folder(root: Path, job: Job) -> Path:
    """Where the searches of one kernel at one workload on one device are kept."""
    problem = job.problem
    device = CPU if (job.device, job.where) == (CPU, "") else _slug(job.label)
    # A dataset may have other sizes under the same workload's name.
    workload = f"{_slug(problem.workload)[:24]}-{problem.sizes_digest[:6]}"
    return root / "tuning" / f"{problem.id}_{job.backend}_{job.kernel.digest[:6]}_{device}_{workload}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())
