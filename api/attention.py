"""`tune_attention`: search modulo schedules of the attention kernel, measured or simulated."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ..core import (
    Budget,
    Config,
    DeviceError,
    Evaluation,
    Evaluator,
    Journal,
    OptionError,
    PythonKernel,
    Target,
    Tuner,
    set_aside,
)
from ..core.events import Emit, Event, FinalsStarted, Finished, Note, TrialDone, ignore
from ..corpus.attention import KERNEL, PROBLEM
from ..corpus.kernels import KernelFile
from ..corpus.problems import find_problem
from ..evaluators.loop_simulator import Loop
from ..evaluators.settings import Limits, Settings
from ..evaluators.simulated import SimulatedEvaluator, simulated_ms
from ..tuners import catalogue
from ..tuners.schedule.attention import BY_HAND, CLOCKS, AttentionShape, Rates, attention_graph
from ..tuners.schedule.bounds import require_interval
from ..tuners.schedule.climb import ScheduleClimb
from ..tuners.schedule.files import load_schedule
from ..tuners.schedule.folder import TuningFolder
from ..tuners.schedule.graph import aligned
from ..tuners.schedule.modulo import modulo_schedule, schedule_in_order, shortest_schedule
from ..tuners.schedule.priorities import RandomKeys, key_space
from ..tuners.schedule.space import ScheduleSpace
from ..tuners.search import Found, Search
from .attention_result import ScheduleResult
from .devices import CPU, choose_device
from .evaluators import STRICT, at_workloads, search_evaluator
from .fitting import MOST, fit_rates, read_rates, write_rates
from .jobs import Job
from .options.attention import OWN_TUNERS, AttentionConfig
from .options.trust import settings_of
from .run_journal import same_run
from .simulation import loop_in

_log = logging.getLogger(__name__)

COMPILE_S = 120.0
NO_TRACES = "timed with CUDA events: no traces of a profiler are taken"
OVERHEAD = 40
"""Cycles of the model for loading Q and writing the result."""
WRITTEN = ("schedules/schedule_*", "traces/trace_*", "*.png", "final_results.json", "attention_*.py")
"""What a search leaves, and another one that starts again must not leave standing if it fails."""


class ScheduleOptimizer:
    """Searches the schedules of one attention problem. Raises `OptionError` for sizes that the kernel cannot have."""

    def __init__(self, config: AttentionConfig) -> None:
        self.config = config
        self.shape = AttentionShape(
            config.batch_size,
            config.num_heads,
            config.num_kv_heads or config.num_heads,
            config.seq_len_q,
            config.seq_len_k or config.seq_len_q,
            config.head_dim,
            config.head_dim_kv or config.head_dim,
            config.causal,
        )
        self.rates = read_rates(config.rates) if config.rates is not None else Rates()
        self.space = self._space_at(self.rates)
        self.folder = config.results / "attention_tuning" / self._name()

    def _space_at(self, rates: Rates) -> ScheduleSpace:
        tiles = self.shape.tiles(of_one_loop=self.config.simulate)
        return ScheduleSpace(lambda one: attention_graph(self.shape, one, rates), tiles)

    def _name(self) -> str:
        """A name that the same problem always gets, so that a search resumes."""
        s, kind = self.shape, self.config.dtype.value
        sizes = f"b{s.batch}_h{s.heads}_kv{s.kv_heads}_q{s.seq_len_q}_k{s.seq_len_k}_d{s.head_dim}_v{s.head_dim_kv}"
        causal = "_causal" if s.causal else ""
        how = "simulated" if self.config.simulate else "measured"
        return f"tune_{sizes}{causal}_{kind}_{self.config.tuner}_{how}"

    def optimize(
        self, max_iterations: int | None = None, max_no_improvement: int | None = None, verbose: bool = False
    ) -> ScheduleResult:
        """Search, write the folder, and return the best schedule.

        The arguments replace `trials` and `patience`; `verbose` logs each trial (level INFO) where the config has no
        `on_event`. Raises `DeviceError` without a GPU, unless it is simulated, and `ScheduleError` for a file that is
        no schedule of this kernel.
        """
        config = self.config
        if max_iterations is not None:
            config = replace(config, trials=max_iterations)
        if max_no_improvement is not None:
            config = replace(config, patience=max_no_improvement)
        return self._run(config, config.on_event or (log_trials if verbose else ignore))

    def _run(self, config: AttentionConfig, emit: Emit) -> ScheduleResult:
        start = self.start(config)
        job, device = self.job(config)
        if not config.resume:
            set_aside(self.folder / "journal.jsonl")
            for path in [path for pattern in WRITTEN for path in self.folder.glob(pattern)]:
                path.unlink()
        folder = TuningFolder(self.folder, self.space)
        with Journal(self.folder / "journal.jsonl") as journal, _evaluator(self, config, device) as evaluator:
            same_run(journal, job, config.tuner)
            # What the climb has asked for depends on its seed; the journal tells it what is known.
            tuner = self.tuner(config, start)
            budget = Budget(trials=config.trials, seconds=config.seconds)
            watch = partial(_keep_in_step, folder, config.simulate, emit)
            search = Search(
                job.problem, job.kernel, self.space, tuner, evaluator, journal, budget, watch, config.patience
            )
            folder.note(f"searching {self._name()} from {start}")
            if not config.simulate:
                folder.note(NO_TRACES)
                emit(Note(NO_TRACES))
            try:
                found = search.run()
            except BaseException:
                folder.write()
                raise
            finally:
                emit(Finished())
        return self._finish(config, job, found, folder)

    def _finish(self, config: AttentionConfig, job: Job, found: Found, folder: TuningFolder) -> ScheduleResult:
        result = ScheduleResult(self.space, job, found, folder)
        kernel = None
        if result.faster:
            kernel = str(result.kernel_path)
            result.write_kernel()
        for number, evaluation in enumerate(folder.improvements if config.simulate else ()):
            result.write_trace(folder.path / "traces" / f"trace_{number:04d}.json", evaluation, self.loop)
        if config.plot:
            result.plot(self.loop)
        folder.finish(result.best, found.start, stopped=found.stopped, kernel=kernel)
        if not result.simulated:
            with contextlib.suppress(OptionError):  # too few schedules
                rates, error = self.fit(found.evaluations)
                count = sum(e.latency_ms is not None for e in found.evaluations)
                write_rates(folder.path / "rates.json", rates, error, min(count, MOST), job.label)
        return result

    def loop(self, config: Config) -> Loop | str:
        """Return the simulator's loop of a config at this problem's sizes, or why it cannot be built."""
        return self._loop_at(self.rates, self.space, config)

    def _loop_at(self, rates: Rates, space: ScheduleSpace, config: Config) -> Loop | str:
        tiles = space.tiles_of(config)
        loop = loop_in(space, config, self.shape.iterations(tiles))
        if isinstance(loop, str):
            return loop
        rounds, cycle_us = self.shape.rounds(tiles, rates), CLOCKS / rates.clock_ghz / 1e3
        return replace(loop, rounds=rounds, cycle_us=cycle_us, overhead=OVERHEAD)

    def fit(self, measured: Sequence[Evaluation]) -> tuple[Rates, float]:
        """Return the model's rates fitted to measured schedules of this problem, and the error; see `fit_rates`."""
        spaces: dict[Rates, ScheduleSpace] = {}

        def predict(rates: Rates, config: Config) -> float | None:
            if rates not in spaces:
                spaces.clear()
                spaces[rates] = self._space_at(rates)
            loop = self._loop_at(rates, spaces[rates], config)
            return None if isinstance(loop, str) else simulated_ms(loop)

        return fit_rates(measured, predict, self.rates)

    def start(self, config: AttentionConfig) -> Config:
        """Return the schedule to start from: the given one, or the one by hand, or the sequential one."""
        if config.schedule is not None:
            return load_schedule(config.schedule, self.space)
        tiles = self.space.some_tiles
        graph = self.space.graph(tiles)
        if config.interval is None:
            # Without roles, which not every head dimension leaves room for, the order by hand has no sense.
            by_hand = schedule_in_order(graph, BY_HAND) if graph.roles else None
            return self.space.config(tiles, *(by_hand or graph.sequential()))
        require_interval(graph, config.interval)
        found = modulo_schedule(graph, config.interval)
        built = aligned(graph, found, config.interval) if found else None
        if built is None:
            more = shortest_schedule(graph, least=config.interval)[1]
            raise OptionError(
                f"no schedule of `interval` {config.interval} was found that can be built", f"there is one of {more}"
            )
        return self.space.config(tiles, built, config.interval)

    def tuner(self, config: AttentionConfig, start: Config) -> Tuner:
        """Return the tuner of a config, which first asks for `start`, then for it with other orders of the work."""
        first = [start, *self._changed(start)]
        if config.tuner in OWN_TUNERS:
            return ScheduleClimb(self.space, config.seed, first, greedy=config.tuner == "schedule")
        chosen = catalogue.create(config.tuner, key_space(self.space), config.seed)
        return RandomKeys(chosen, self.space, config.seed, first)

    def _changed(self, start: Config) -> list[Config]:
        """Return the start with what no schedule of the model leads to."""
        changed = (Config({**start, **change}) for change in self.shape.first_changes())
        return [config for config in changed if config in self.space]

    def job(self, config: AttentionConfig) -> tuple[Job, str]:
        """Return the kernel and the problem at these sizes, and the device."""
        kernel: PythonKernel = KernelFile(KERNEL, "attention").read()
        s = self.shape
        sizes = {
            "batch_size": s.batch, "heads": s.heads, "kv_heads": s.kv_heads, "seq_len_q": s.seq_len_q,
            "seq_len_k": s.seq_len_k, "head_dim": s.head_dim, "head_dim_kv": s.head_dim_kv, "causal": s.causal,
            "dtype": config.dtype.value,
        }  # fmt: skip
        problem = find_problem(str(PROBLEM)).read().resized("given", sizes)
        if config.simulate:
            # Times at other rates cannot be compared: as if they were another device's.
            return Job(kernel, problem, CPU, str(KERNEL), where=f"simulated at {self.rates}"), CPU
        device = choose_device(config)
        if Target.of_device(device) is not Target.CUDA:
            raise DeviceError("schedules are measured on a GPU, and there is none", "use `simulate`")
        return Job(kernel, problem, device, str(KERNEL)), device


@contextlib.contextmanager
def _evaluator(optimizer: ScheduleOptimizer, config: AttentionConfig, device: str) -> Iterator[Evaluator]:
    if config.simulate:
        yield SimulatedEvaluator(optimizer.loop)
        return
    adaptive = config.tuner in OWN_TUNERS or catalogue.adaptive(config.tuner)
    settings = settings_of(STRICT, Settings(limits=Limits(compile_s=COMPILE_S)))
    with contextlib.ExitStack() as stack:
        yield at_workloads(partial(search_evaluator, [device], None, adaptive, settings), stack)


def tune_attention(config: AttentionConfig) -> tuple[dict[str, int], float]:
    """Search schedules of the attention kernel; return the best schedule and its latency in seconds.

    The schedule has a cycle for each operation. Raises `OptionError` where no schedule was correct.
    """
    result = ScheduleOptimizer(config).optimize()
    if result.best is None:
        first = next((e.message for e in result.found.evaluations if e.message), result.found.stopped)
        raise OptionError(f"no schedule was correct: {first}", f"see {result.folder.path}")
    return result.schedule, result.latency


def _keep_in_step(folder: TuningFolder, simulated: bool, emit: Emit, event: Event) -> None:
    """Write a trial into the folder, then pass on; no finalists of a simulation, since nothing is measured again."""
    if isinstance(event, TrialDone) and folder.add(event.evaluation):
        folder.write()
    if not (simulated and isinstance(event, FinalsStarted)):
        emit(event)


def log_trials(event: Event) -> None:
    """Log every trial, at level INFO."""
    if isinstance(event, TrialDone):
        evaluation = event.evaluation
        latency = f"{evaluation.latency_ms:.4f} ms" if evaluation.latency_ms else evaluation.message
        _log.info("trial %d, %s: %s", event.number, evaluation.status, latency)
