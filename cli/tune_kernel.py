"""`kernelwright tune kernel REF`: search the parameters of one kernel."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..core import (
    Budget,
    Config,
    Journal,
    JournalError,
    OptionError,
    ResultsError,
    SpaceError,
    Value,
    set_aside,
)
from ..evaluators.processes import cores
from ..tuners import catalogue
from ..tuners.discovery import space_of
from ..tuners.formats import read_recording
from ..tuners.hardware import prune
from ..tuners.search import Search
from . import wiring
from .optimize import identity, must_be_timed
from .render import Screen
from .request import Request
from .tune_progress import observer_for
from .tuned import Tuned

_PARAM = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.+)")


@dataclass(frozen=True)
class TuneRequest:
    """The options of `tune kernel`."""

    kernel: str
    params: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    prune: bool = True
    tuner: str = catalogue.DEFAULT
    trials: int | None = None
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
    results: Path = Path("results")
    resume: bool = False
    save: bool = True
    plot: bool = False
    json: bool = False
    quiet: bool = False
    values: Mapping[str, Sequence[Value]] = field(default_factory=dict, init=False)

    def check(self) -> None:
        """Raise `OptionError` for what cannot be done."""
        at_least_one = {"--trials": self.trials, "--patience": self.patience, "--compilers": self.compilers}
        for option, value in at_least_one.items():
            if value is not None and value < 1:
                raise OptionError(f"{option} must be at least 1, not {value}")
        for option, limit in {"--seconds": self.seconds, "--compile-limit": self.compile_limit}.items():
            if limit is not None and not 0 < limit < float("inf"):
                raise OptionError(f"{option} must be above 0, not {limit:g}")
        if self.tuner not in catalogue.names():
            raise OptionError(f"there is no tuner {self.tuner!r}; use one of {', '.join(catalogue.names())}")

    @property
    def common(self) -> Request:
        """The options that it shares with other commands."""
        return Request(
            kernel=self.kernel, device=self.device, backend=self.backend, problem=self.problem, dataset=self.dataset,
            workload=self.workload, results=self.results, resume=self.resume, json=self.json, quiet=self.quiet,
        )  # fmt: skip


def run_tune(request: TuneRequest) -> int:
    """The exit code of `tune kernel`."""
    request.check()
    given = parse_params(request.params)
    screen = Screen(request.common)
    devices = wiring.choose_devices(request.common)
    job = wiring.job(request.common, request.kernel, devices[0])
    must_be_timed(job)
    space = space_of(job.kernel, given, request.constraints)
    warm = [pair for path in request.warm for pair in read_recording(path).within(space.space)]
    folder = results_folder(request.results, job)
    if not request.resume:
        set_aside(folder / "journal.jsonl")
    compilers = request.compilers or max(1, cores() // len(devices))
    adaptive = catalogue.adaptive(request.tuner)
    with (
        Journal(folder / "journal.jsonl") as journal,
        wiring.search_evaluator(devices, compilers, adaptive, request.compile_limit) as evaluator,
    ):
        _same_search(journal, job)
        loading = threading.Thread(target=catalogue.preload, args=(request.tuner,), daemon=True)
        with screen.working(f"looking at {job.problem.id} on {', '.join(devices)}"):
            loading.start()
            profile = evaluator.profile(job.problem)
            loading.join()
        pruned, rules = prune(space.space, job.kernel, profile) if request.prune else (space.space, [])
        start = [Config({name: job.kernel.config[name] for name in pruned.names})]
        tuner = catalogue.create(request.tuner, pruned, request.seed, warm, start, profile)
        budget = Budget(trials=request.trials, seconds=request.seconds)
        observer = observer_for(screen, request.kernel, space, pruned, rules, budget)
        search = Search(job.problem, job.kernel, pruned, tuner, evaluator, journal, budget, observer, request.patience)
        try:
            found = search.run()
        except BaseException:
            partial = Tuned(job, request.tuner, request.seed, space, pruned, search.so_far("interrupted"), folder)
            with contextlib.suppress(ResultsError, SpaceError):
                partial.write(request.plot)
            raise
        finally:
            observer.close()
    tuned = Tuned(job, request.tuner, request.seed, space, pruned, found, folder, request.save)
    tuned.write(request.plot)
    if request.json:
        print(json.dumps(tuned.summary()), file=sys.stdout)
    else:
        tuned.show(screen)
    return 0 if found.best else 1


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
    """Where the searches of one kernel on one device are kept."""
    device = re.sub(r"[^a-z0-9]+", "-", wiring.device_label(job.device).lower()) if job.device != "cpu" else "cpu"
    return root / "tuning" / f"{job.problem.id}_{job.backend}_{job.kernel.digest[:6]}_{device}"


def _same_search(journal: Journal, job: wiring.Job) -> None:
    """Write what is searched, or refuse a journal of something else."""
    known = next(journal.of_kind("run"), None)
    if known is None:
        journal.append({"kind": "run", **identity(job)})
    elif different := [name for name, value in identity(job).items() if known.get(name) != value]:
        raise JournalError(
            f"{journal.path} is of another search: {', '.join(different)} changed; leave --resume out to start anew"
        )
