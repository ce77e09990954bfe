"""`tune mlir`: schedule the operations of a module one after another, then the finalists together."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ..core import (
    Budget,
    Config,
    Evaluation,
    Journal,
    MlirKernel,
    Target,
    Trial,
    set_aside,
)
from ..core.events import Emit, FinalsStarted, Finished, Note, PartDone, PartStarted, Step, Warned
from ..evaluators.iree.evaluator import FINALS, IreeEvaluator, search_settings
from ..evaluators.iree.processes import Processes
from ..evaluators.iree.reading import require_readable
from ..evaluators.pipeline.processes import cores
from ..evaluators.settings import Limits, Settings
from ..tuners import catalogue
from ..tuners.mlir.analysis import analyse, read_source
from ..tuners.mlir.machine import Machine
from ..tuners.mlir.space import Schedule, schedules
from ..tuners.mlir.template import kernel_of
from ..tuners.search import Found, Search
from .devices import CPU, CUDA, choose_device, cuda_devices, device_label
from .mlir_files import RunFolder
from .mlir_result import MlirResult, Scheduling, Transformed
from .mlir_wishes import Wishes
from .options.mlir import MlirOptions
from .run_journal import require_same

BEST_OF_EACH = 2
"""Finalists per operation of which the combinations are measured together."""
COMBINATIONS = 8
"""So many of them at most, the likeliest first."""
TRANSFORMING = "Transforming"
"""The step in which the module is read, and a space is made for each operation."""
JOINT = "joint"
"""Origin of trials of whole functions in the journal."""


def run_mlir(options: MlirOptions, emit: Emit) -> MlirResult:
    """Tune, and write the files, also those of an interrupted search."""
    wishes = Wishes.of(options)
    emit(Step(TRANSFORMING))
    with contextlib.closing(processes_of(options)) as processes:
        return _run(options, emit, wishes, processes)


def processes_of(options: MlirOptions) -> Processes:
    """Return where the module is read first, compiled and run; the caller closes it."""
    return Processes(_device(options), Limits(compile_s=options.compile_limit), options.sandbox)


def _run(options: MlirOptions, emit: Emit, wishes: Wishes, processes: Processes) -> MlirResult:
    began = time.monotonic()
    scheduling = schedule_module(options, wishes, processes)
    for remark in (
        *scheduling.problem.remarks,
        *(text for schedule in scheduling.schedules for text in schedule.remarks),
    ):
        emit(Warned(remark))
    folder = RunFolder(results_folder(options.results, scheduling, wishes), scheduling, options, wishes.csv)
    if options.dry_run:
        emit(Step(TRANSFORMING, over=True))
        emit(PartDone(Transformed(scheduling, time.monotonic() - began)))
        return _dry(scheduling, wishes, folder, emit)
    if not options.resume:
        set_aside(folder.path / "journal.jsonl")
    catalogue.preload(wishes.tuner)
    with Journal(folder.path / "journal.jsonl") as journal, _evaluator(scheduling, options, processes) as evaluator:
        require_same(journal, scheduling.record(wishes.tuner, evaluator.target.named_chip))
        folder.started(datetime.now(UTC), time.monotonic() - began, resumed=options.resume)
        emit(Step(TRANSFORMING, over=True))
        emit(PartDone(Transformed(scheduling, time.monotonic() - began)))
        run = _Searches(scheduling, options, wishes, evaluator, journal, emit, folder)
        try:
            run.search_all()
        finally:
            emit(Finished())
            folder.searched()
        return run.finish()


def schedule_module(options: MlirOptions, wishes: Wishes, processes: Processes) -> Scheduling:
    """Analyse the module and make its operations' spaces, without compiling anything."""
    source, name = read_source(wishes.file), wishes.file.stem
    require_readable(source, name, processes)
    problem = analyse(source, name, options.function)
    device = _device(options)
    machine = Machine.this_cpu() if device == CPU else Machine(Target.CUDA)
    found = schedules(problem.operations, machine, wishes.ranges)
    kernel = kernel_of(problem, machine.target, found)
    here = device == CPU or cuda_devices() > 0
    return Scheduling(problem, tuple(found), kernel, device, device_label(device) if here else device)


def results_folder(root: Path, scheduling: Scheduling, wishes: Wishes) -> Path:
    """Where the searches of one module on one device with one tuner are kept."""
    device = re.sub(r"[^a-z0-9]+", "-", scheduling.device)
    return root / "mlir" / f"{scheduling.problem.name}_{scheduling.kernel.digest[:6]}_{device}_{wishes.tuner}"


def _device(options: MlirOptions) -> str:
    """Return the device; a dry run needs none."""
    if options.dry_run and options.device.partition(":")[0] == CUDA:
        return options.device
    return choose_device(options)


@contextlib.contextmanager
def _evaluator(scheduling: Scheduling, options: MlirOptions, processes: Processes) -> Iterator[IreeEvaluator]:
    compilers = options.compilers or cores()
    search = search_settings(scheduling.device == "cpu", compilers)
    limits = Limits(compile_s=options.compile_limit)
    settings = Settings(limits=limits, sampling=FINALS, sandbox=options.sandbox, search=search)
    settings = settings.quick() if options.quick else settings
    with IreeEvaluator(
        scheduling.device, options.chip or "", settings, label=scheduling.label, processes=processes
    ) as evaluator:
        yield evaluator


def _dry(scheduling: Scheduling, wishes: Wishes, folder: RunFolder, emit: Emit) -> MlirResult:
    """Name, and write, the configs that a grid would try first."""
    for schedule in scheduling.schedules:
        for config in itertools.islice(schedule.space, wishes.trials):
            emit(Note(f"[Dry run] : {folder.emit(schedule, scheduling.kernel, Config(config))}"))
    return MlirResult(scheduling, wishes.tuner, folder.path, (), (), dry=True)


class _Searches:
    """One run: a search per operation, each with the earlier ones' winners bound."""

    def __init__(
        self, scheduling: Scheduling, options: MlirOptions, wishes: Wishes, evaluator: IreeEvaluator,
        journal: Journal, emit: Emit, folder: RunFolder,
    ) -> None:  # fmt: skip
        self.scheduling = scheduling
        self._options, self._wishes = options, wishes
        self._evaluator, self._journal = evaluator, journal
        self._emit, self._folder = emit, folder
        self._found: list[Found] = []
        self._finals: list[Evaluation] = []

    def search_all(self) -> None:
        """Search operation by operation, then among the combinations of their finalists."""
        kernel, total = self.scheduling.kernel, len(self.scheduling.schedules)
        for number, schedule in enumerate(self.scheduling.schedules, start=1):
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
        tuner = catalogue.create(self._wishes.tuner, space, self._options.seed, start=schedule.first)
        budget = Budget(trials=self._wishes.trials, seconds=self._options.seconds)
        watching = self._folder.watching(schedule, kernel, self._emit)
        search = Search(
            self.scheduling.problem, kernel, space, tuner, self._evaluator, self._journal, budget, watching,
            self._options.patience,
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
        self._emit(FinalsStarted(tuple(wanted), combined=True))
        began = time.monotonic()
        finals = self._evaluator.compare(self.scheduling.problem, kernel, wanted)
        for final in finals:
            self._journal.append(Trial.now(JOINT, final, (time.monotonic() - began) / len(finals)))
        return _ranked(finals)

    def _together(self) -> list[tuple[Config, ...]]:
        """Return combinations of the operations' finalists, those of the fastest first."""
        each = [[Config(finalist.config) for finalist in _finalists(found)][:BEST_OF_EACH] for found in self._found]
        places = itertools.product(*(range(len(some) or 1) for some in each))
        ranked = sorted(places, key=sum)[:COMBINATIONS]
        return [tuple(some[i] if some else Config() for some, i in zip(each, item, strict=True)) for item in ranked]

    def finish(self) -> MlirResult:
        """Write the files of the result."""
        result = MlirResult(
            self.scheduling, self._wishes.tuner, self._folder.path, tuple(self._found), tuple(self._finals)
        )
        return self._folder.finish(result, self._evaluator)


def _finalists(found: Found) -> Sequence[Evaluation]:
    return [finalist for finalist in found.finals if finalist.latency_ms is not None and finalist.config]


def _ranked(finals: Sequence[Evaluation]) -> list[Evaluation]:
    return sorted(finals, key=lambda one: (one.latency_ms is None, one.latency_ms))
