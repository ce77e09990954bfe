"""`kernelwright tune kernel REF`: search the parameters of one kernel."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core import Budget, Config, Journal, Kernel, OptionError, ResultsError, SearchSpace, SpaceError, Value, set_aside
from ..core.space_inference import named_sizes
from ..evaluators.remote.machines import Remote
from ..tuners import catalogue
from ..tuners.discovery import space_of
from ..tuners.formats import read_recording
from ..tuners.hardware import prune
from ..tuners.search import Found, Search
from . import wiring
from .machines import HERE, Machines
from .optimize import must_be_timed, same_run
from .render import Screen
from .request import Request
from .trust import TRUSTED, Trust
from .tune_progress import observer_for
from .tuned import Tuned

TRIALS = 200
"""Of a search whose tuner does not end by itself, where the user names no limit."""
_PARAM = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.+)")


@dataclass(frozen=True)
class TuneRequest:
    """The options of `tune kernel`."""

    kernel: str
    params: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    prune: bool = True
    tuner: str = catalogue.DEFAULT
    stride: int | None = None
    trials: int | None = None
    """None means all for a tuner that goes through the whole space, `TRIALS` for any other."""
    seconds: float | None = None
    patience: int | None = None
    seed: int = 0
    warm: tuple[Path, ...] = ()
    device: str = "auto"
    backend: str | None = None
    problem: str | None = None
    dataset: Path | None = None
    workload: str | None = None
    compilers: int | None = None
    compile_limit: float = 120.0
    machines: Machines = HERE
    trust: Trust = TRUSTED
    results: Path = Path("results")
    resume: bool = False
    save: bool = True
    plot: bool = False
    json: bool = False
    quiet: bool = False

    def check(self) -> None:
        """Raise `OptionError` for what cannot be done."""
        at_least_one = {
            "--trials": self.trials,
            "--patience": self.patience,
            "--compilers": self.compilers,
            "--stride": self.stride,
        }
        for option, value in at_least_one.items():
            if value is not None and value < 1:
                raise OptionError(f"{option} must be at least 1, not {value}")
        for option, limit in {"--seconds": self.seconds, "--compile-limit": self.compile_limit}.items():
            if limit is not None and not 0 < limit < float("inf"):
                raise OptionError(f"{option} must be above 0, not {limit:g}")
        catalogue.check(self.tuner)
        if self.stride is not None and not catalogue.exhaustive(self.tuner):
            raise OptionError(f"--stride is for the grid, and the tuner is {self.tuner}; use --tuner grid")

    @property
    def budget(self) -> Budget:
        """When the search ends."""
        trials = None if catalogue.exhaustive(self.tuner) else TRIALS
        return Budget(trials=trials if self.trials is None else self.trials, seconds=self.seconds)

    @property
    def common(self) -> Request:
        """The options that it shares with other commands."""
        return Request(
            kernel=self.kernel, device=self.device, backend=self.backend, problem=self.problem, dataset=self.dataset,
            workload=self.workload, machines=self.machines, results=self.results, resume=self.resume, json=self.json,
            quiet=self.quiet, trust=self.trust,
        )  # fmt: skip


def run_tune(request: TuneRequest) -> int:
    """The exit code of `tune kernel`."""
    request.check()
    with request.machines.joined(request.device) as remote:
        return _tune(request, remote)


def _tune(request: TuneRequest, remote: Remote | None) -> int:
    given = parse_params(request.params)
    screen = Screen(request.common)
    devices = wiring.choose_devices(request.common, remote)
    job = wiring.job(request.common, request.kernel, devices[0], remote)
    must_be_timed(job)
    # Most mistakes are found now; the extents of the matrix product are known with the profile.
    space = space_of(job.kernel, given, request.constraints, named_sizes(job.problem), profiled=False)
    warm = [pair for path in request.warm for pair in _warmth(path, job.kernel, space.space, screen)]
    folder = results_folder(request.results, job)
    if not request.resume:
        set_aside(folder / "journal.jsonl")
    adaptive = catalogue.adaptive(request.tuner)
    with (
        Journal(folder / "journal.jsonl") as journal,
        wiring.search_evaluator(
            devices, request.compilers, adaptive, request.compile_limit, request.trust, remote
        ) as evaluator,
    ):
        same_run(journal, job, request.tuner)
        loading = threading.Thread(target=catalogue.preload, args=(request.tuner,), daemon=True)
        with screen.working(f"looking at {job.problem.id} on {job.where or ', '.join(devices)}"):
            loading.start()
            profile = evaluator.profile(job.problem)
            loading.join()
        space = space_of(job.kernel, given, request.constraints, named_sizes(job.problem, profile))
        pruned, rules = prune(space.space, job.kernel, profile) if request.prune else (space.space, [])
        start = [Config({name: job.kernel.config[name] for name in pruned.names})]
        stride = request.stride or 1
        tuner = catalogue.create(request.tuner, pruned, request.seed, warm, start, profile, stride)
        budget = request.budget
        observer = observer_for(screen, request.kernel, space, pruned, rules, budget)
        search = Search(job.problem, job.kernel, pruned, tuner, evaluator, journal, budget, observer, request.patience)

        def tuned(found: Found) -> Tuned:
            return Tuned(job, request.tuner, request.seed, space, pruned, found, folder, request.save)

        try:
            found = search.run()
        except BaseException as error:
            # Without a trial of its own, this run has nothing to put over what an earlier one left.
            if search.progress.trials > search.progress.recalled:
                why = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__
                with contextlib.suppress(ResultsError, SpaceError):
                    tuned(search.so_far(why)).write(request.plot)
            raise
        finally:
            observer.close()
    result = tuned(found)
    result.write(request.plot)
    if found.best is None or not request.json:
        result.show(screen)
    if request.json:
        print(json.dumps(result.summary()), file=sys.stdout)
    return 0 if found.best else 1


def _warmth(path: Path, kernel: Kernel, space: SearchSpace, screen: Screen) -> list[tuple[Config, float | None]]:
    """What a recording knows of the configs of a space."""
    recording = read_recording(path)
    if recording.kernel not in (None, kernel.digest):
        screen.warn(f"--warm {path} is of another kernel ({recording.kernel}), so it only seeds the search")
    return recording.within(space)


def parse_params(texts: Sequence[str]) -> dict[str, list[Value]]:
    """'BLOCK_M=32,64,128' to a name and its values; raises `SpaceError` for anything else."""
    found: dict[str, list[Value]] = {}
    for text in texts:
        match = _PARAM.fullmatch(text)
        if match is None:
            raise SpaceError(f"--param {text!r} names no values; write it as BLOCK_M=32,64,128")
        if match[1] in found:
            raise SpaceError(f"--param {match[1]} is given twice; give all its values at once")
        found[match[1]] = [_value(part.strip(), text) for part in match[2].split(",")]
    return found


def _value(text: str, whole: str) -> Value:
    if not text:
        raise SpaceError(f"--param {whole!r} has an empty value; write it as BLOCK_M=32,64,128")
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        if re.search(r"[()\[\]{}]", text):
            raise SpaceError(f"--param {whole!r}: a value is a number or a text without brackets") from None
        return text
    return value if isinstance(value, int | float | str) else text


def results_folder(root: Path, job: wiring.Job) -> Path:
    """Where the searches of one kernel at one workload on one device are kept."""
    problem = job.problem
    device = wiring.CPU if (job.device, job.where) == (wiring.CPU, "") else _slug(job.label)
    # A dataset may have other sizes under the same workload's name.
    workload = f"{_slug(problem.workload)[:24]}-{problem.sizes_digest[:6]}"
    return root / "tuning" / f"{problem.id}_{job.backend}_{job.kernel.digest[:6]}_{device}_{workload}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())
