"""Schedule the matrix products and convolutions of an MLIR module that IREE compiles; needs the extra 'iree'.

Exit codes: 0 a config is faster, 1 no config was correct, 2 wrong usage, 3 nothing faster was found.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ...core import Budget, Config, Evaluation, Journal, MlirKernel, OptionError, Target, Trial
from ...core.environment import cores
from ...core.events import Emit, FinalsStarted, Finished, Note, PartStarted, Warned
from ...evaluators.iree.evaluator import FINALS, IreeEvaluator, search_settings
from ...evaluators.iree.processes import IreeProcesses
from ...evaluators.iree.reading import require_readable
from ...evaluators.settings import Limits, Sandbox, Settings
from ...runtime import command
from ...runtime.devices import CPU, CUDA, cuda_devices, device_label
from ...runtime.jobs import open_journal
from ...runtime.options.groups import OUTPUT, WHERE, DeviceOptions, ResultOptions
from ...runtime.options.option import described, option
from ...runtime.options.trust import QuickOptions, SandboxOptions
from ...runtime.runtime import Runtime
from ...tuners import catalogue
from ...tuners.mlir.analysis import analyse, read_source
from ...tuners.mlir.cfg import read_cfg
from ...tuners.mlir.machine import ScheduleTarget
from ...tuners.mlir.space import Schedule, schedules
from ...tuners.mlir.template import kernel_of
from ...tuners.search import Found, Search
from ._mlir_files import MlirRunFolder, finals_text
from ._mlir_result import DOUBLE, ScheduledModule, duration
from ._mlir_result import Result as Result

EXAMPLES = (
    "tune mlir matmul.mlir --device cpu --trials 32",
    "tune mlir --config auto-scheduler.cfg --emit generated --save-cmds",
    "tune mlir matmul.mlir --device cuda --emit generated --dry-run",
)
POSITIONAL = ("file",)
MODULE = "Module"
SEARCH = "Search"
TRIALS = 64
"""Default limit per operation."""
BEST_OF_EACH = 2
"""Number of finalists per operation whose combinations are measured."""
COMBINATIONS = 8
"""Maximum number of combinations, the most likely first."""
JOINT = "joint"
"""Origin of trials of whole functions in the journal."""


@dataclass(frozen=True, kw_only=True)
class Options(SandboxOptions, QuickOptions, ResultOptions, DeviceOptions):
    """Schedule the operations of an MLIR module that IREE compiles."""

    file: Path | None = field(
        default=None,
        kw_only=False,
        metadata=described("The module; by default the `input_file` of `config`.", metavar="FILE"),
    )
    config: Path | None = option(
        None, "An auto-scheduler.cfg: [Env], [SearchSpace], [SearchStrategy].", MODULE, metavar="FILE", trusted=True
    )
    function: str | None = option(None, "The function, where the module has several.", MODULE, metavar="NAME")
    chip: str | None = option(
        None,
        "Target of IREE's code: host, znver4 ... for a CPU; sm_80, sm_89 ... for a GPU. By default host, or "
        "sm_80, whose code newer GPUs run too.",
        WHERE,
    )
    tuner: str | None = option(None, "{choices}; portfolio by default.", SEARCH, choices=catalogue.choices)
    trials: int | None = option(None, "At most this many configs per operation; by default 64.", SEARCH, at_least=1)
    seconds: float | None = option(None, "Start no trial of an operation after this time.", SEARCH, above=0)
    patience: int | None = option(
        None, "Stop after this many trials of an operation without a better one.", SEARCH, at_least=1
    )
    seed: int = option(0, "Random seed of the tuner.", SEARCH)
    compilers: int | None = option(
        None, "Processes that compile at once; by default as many as there are cores.", WHERE, at_least=1, trusted=True
    )
    compile_limit: float = option(60.0, "Seconds after which a compilation is ended.", WHERE, above=0, trusted=True)
    emit: Path | None = option(
        None, "Write every module that is tried to this folder, with the auto-scheduler's names.", OUTPUT, metavar="DIR"
    )
    dry_run: bool = option(False, "Write the space and the modules, and compile and run nothing.", OUTPUT)
    save_cmds: bool = option(False, "Write the compiler's commands and output next to the modules.", OUTPUT)

    def check(self) -> None:
        """Raise `OptionError` for options that contradict each other."""
        super().check()
        if self.file is None and self.config is None:
            raise OptionError("there is no module", "give a FILE, or `config` auto-scheduler.cfg that names one")
        if self.tuner is not None:
            catalogue.check(self.tuner)
        if self.save_cmds and self.emit is None:
            raise OptionError("`save_cmds` writes next to the modules", "give `emit` DIR too")


@dataclass(frozen=True)
class Plan(command.Plan):
    """Module, space, search and files."""

    file: Path
    function: str | None
    device: str
    chip: str | None
    tuner: str
    trials: int
    """Per operation."""
    seconds: float | None
    """Per operation."""
    patience: int | None
    seed: int
    ranges: Mapping[str, tuple[int, ...]]
    """Values by parameter; empty for a derived space."""
    csv: Path | None
    """Another file for the trials: the `output_file` of the config."""
    compilers: int | None
    compile_limit: float
    emit: Path | None
    """Folder for the tried modules; None to write none."""
    save_cmds: bool
    blocks: bool
    """Whether trials are shown as the auto-scheduler shows them, in twelve lines each, not in one."""
    dry_run: bool
    results: Path
    resume: bool
    quick: bool
    sandbox: Sandbox


def plan(options: Options, runtime: Runtime) -> Plan:
    """Return the settings of the options, then of the config file, then the defaults.

    Raises `OptionError` without a module.
    """
    given = read_cfg(options.config) if options.config is not None else None
    file = options.file or (given.input_file if given else None)
    if file is None:
        raise OptionError(f"`config` {options.config} names no input_file", "give a FILE, or add it to [Env]")
    # A dry run needs no device.
    here = options.dry_run and options.device.partition(":")[0] == CUDA
    return Plan.of(
        options,
        file=file,
        device=options.device if here else runtime.device(options),
        tuner=options.tuner or (given.tuner if given else None) or catalogue.DEFAULT,
        trials=options.trials or (given.trials if given else None) or TRIALS,
        ranges=given.ranges if given else {},
        csv=given.output_file if given else None,
        blocks=given is not None,
    )


def run(plan: Plan, emit: Emit) -> Result:
    """Tune, and write the files, also those of an interrupted search."""
    emit(Note(f"Step 1: Generate search space and transform the original IR\n{DOUBLE}\nTransforming ......"))
    with contextlib.closing(processes_of(plan)) as processes:
        return _run(plan, emit, processes)


def processes_of(plan: Plan) -> IreeProcesses:
    """Return the processes that read, compile and run the module. The caller closes them."""
    return IreeProcesses(plan.device, Limits(compile_s=plan.compile_limit), plan.sandbox)


def _run(plan: Plan, emit: Emit, processes: IreeProcesses) -> Result:
    began = time.monotonic()
    scheduling = schedule_module(plan, processes)
    for remark in (
        *scheduling.problem.remarks,
        *(text for schedule in scheduling.schedules for text in schedule.remarks),
    ):
        emit(Warned(remark))
    folder = MlirRunFolder(
        results_folder(plan, scheduling), scheduling, plan.chip or "", plan.csv, plan.emit, plan.save_cmds, plan.blocks
    )
    if plan.dry_run:
        _tell(scheduling, time.monotonic() - began, emit)
        return _dry(scheduling, plan, folder, emit)
    catalogue.preload(plan.tuner)
    with contextlib.ExitStack() as stack:
        evaluator = stack.enter_context(_evaluator(scheduling, plan, processes))
        this = scheduling.record(plan.tuner, evaluator.target.named_chip)
        journal = stack.enter_context(open_journal(folder.path, plan.resume, this))
        folder.started(datetime.now(UTC), time.monotonic() - began, resumed=plan.resume)
        _tell(scheduling, time.monotonic() - began, emit)
        searches = _Searches(scheduling, plan, evaluator, journal, emit, folder)
        try:
            searches.search_all()
        finally:
            emit(Finished())
            folder.searched()
        return searches.finish()


def _tell(scheduling: ScheduledModule, seconds: float, emit: Emit) -> None:
    """Report the operations, and the header of the second step."""
    for schedule in scheduling.schedules:
        operation = schedule.operation
        emit(Note(f"{operation.name}: {operation.shape} {operation.result.element}, {schedule.space.cardinality}"))
    emit(Note(f"{duration(seconds)}\n{DOUBLE}\n"))
    emit(Note(f"Step 2: Search the space to get the best performance config\n{DOUBLE}"))


def schedule_module(plan: Plan, processes: IreeProcesses) -> ScheduledModule:
    """Analyse the module and make its operations' spaces, without compiling anything."""
    source, name = read_source(plan.file), plan.file.stem
    require_readable(source, name, processes)
    problem = analyse(source, name, plan.function)
    device = plan.device
    machine = ScheduleTarget.this_cpu() if device == CPU else ScheduleTarget(Target.CUDA)
    found = schedules(problem.operations, machine, plan.ranges)
    kernel = kernel_of(problem, machine.target, found)
    here = device == CPU or cuda_devices() > 0
    return ScheduledModule(problem, tuple(found), kernel, device, device_label(device) if here else device)


def results_folder(plan: Plan, scheduling: ScheduledModule) -> Path:
    """Return the folder of searches of a module on a device with a tuner."""
    device = re.sub(r"[^a-z0-9]+", "-", scheduling.device)
    return plan.results / "mlir" / f"{scheduling.problem.name}_{scheduling.kernel.digest[:6]}_{device}_{plan.tuner}"


def _evaluator(scheduling: ScheduledModule, plan: Plan, processes: IreeProcesses) -> IreeEvaluator:
    search = search_settings(scheduling.device == CPU, plan.compilers or cores())
    limits = Limits(compile_s=plan.compile_limit)
    settings = Settings(limits=limits, sampling=FINALS, sandbox=plan.sandbox, search=search)
    settings = settings.quick() if plan.quick else settings
    return IreeEvaluator(scheduling.device, plan.chip or "", settings, label=scheduling.label, processes=processes)


def _dry(scheduling: ScheduledModule, plan: Plan, folder: MlirRunFolder, emit: Emit) -> Result:
    """Name and write the first configs of a grid."""
    for schedule in scheduling.schedules:
        for config in itertools.islice(schedule.space, plan.trials):
            emit(Note(f"[Dry run] : {folder.emit(schedule, scheduling.kernel, Config(config))}"))
    return Result(scheduling=scheduling, tuner=plan.tuner, folder=folder.path, dry=True)


class _Searches:
    """One run: a search per operation, each with the earlier ones' winners bound."""

    def __init__(
        self, scheduling: ScheduledModule, plan: Plan, evaluator: IreeEvaluator,
        journal: Journal, emit: Emit, folder: MlirRunFolder,
    ) -> None:  # fmt: skip
        self.scheduling = scheduling
        self._plan = plan
        self._evaluator, self._journal = evaluator, journal
        self._emit, self._folder = emit, folder
        self._found: list[Found] = []
        self._finals: list[Evaluation] = []

    def search_all(self) -> None:
        """Search operation by operation, then among the combinations of their finalists."""
        kernel, total = self.scheduling.kernel, len(self.scheduling.schedules)
        for number, schedule in enumerate(self.scheduling.schedules, start=1):
            if total > 1:
                self._emit(PartStarted(schedule.operation.name, number, total))
            found = self._search(schedule, kernel)
            self._found.append(found)
            if found.faster is not None:
                kernel = kernel.bind(found.faster.config)
        self._finals = list(self._found[0].finals) if total == 1 else self._combined()

    def _search(self, schedule: Schedule, kernel: MlirKernel) -> Found:
        space = schedule.space
        # By the open slots, a journal tells apart the searches of operations whose earlier ones gained nothing.
        kernel = kernel.restricted(space.names)
        tuner = catalogue.create_tuner(self._plan.tuner, space, self._plan.seed, start=schedule.first)
        budget = Budget(trials=self._plan.trials, seconds=self._plan.seconds)
        watching = self._folder.watching(schedule, kernel, self._emit)
        search = Search(
            self.scheduling.problem, kernel, space, tuner, self._evaluator, self._journal, budget, watching,
            self._plan.patience,
        )  # fmt: skip
        return search.run()

    def _combined(self) -> list[Evaluation]:
        """Return the combinations of the operations' finalists and the default module, timed together."""
        kernel = self.scheduling.kernel
        merged = [Config({name: v for item in some for name, v in item.items()}) for some in self._together()]
        wanted = list(dict.fromkeys([Config(), *merged]))
        known = {
            Config(trial.evaluation.config): trial.evaluation
            for trial in self._journal.of(Trial)
            if trial.origin == JOINT and trial.evaluation.kernel_digest == kernel.digest
        }
        if set(wanted) <= known.keys():
            return _ranked([known[config] for config in wanted])
        event = FinalsStarted(tuple(wanted), combined=True)
        self._emit(event)
        if self._plan.blocks:
            self._emit(Note(finals_text(event)))
        began = time.monotonic()
        finals = self._evaluator.compare(self.scheduling.problem, kernel, wanted)
        for final in finals:
            self._journal.append(Trial.now(JOINT, final, (time.monotonic() - began) / len(finals)))
        return _ranked(finals)

    def _together(self) -> list[tuple[Config, ...]]:
        """Return combinations of the operations' finalists, the fastest first."""
        each = [[Config(finalist.config) for finalist in _finalists(found)][:BEST_OF_EACH] for found in self._found]
        places = itertools.product(*(range(len(some) or 1) for some in each))
        ranked = sorted(places, key=sum)[:COMBINATIONS]
        return [tuple(some[i] if some else Config() for some, i in zip(each, item, strict=True)) for item in ranked]

    def finish(self) -> Result:
        """Write the files of the result."""
        result = Result(
            scheduling=self.scheduling,
            tuner=self._plan.tuner,
            folder=self._folder.path,
            found=tuple(self._found),
            finals=tuple(self._finals),
        )
        return self._folder.finish(result, self._evaluator)


def _finalists(found: Found) -> Sequence[Evaluation]:
    return [finalist for finalist in found.finals if finalist.latency_ms is not None and finalist.config]


def _ranked(finals: Sequence[Evaluation]) -> list[Evaluation]:
    return sorted(finals, key=lambda evaluation: (evaluation.latency_ms is None, evaluation.latency_ms))
