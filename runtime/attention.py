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
    KernelwrightError,
    OptionError,
    PythonKernel,
    Target,
    TorchProblem,
    Tuner,
)
from ..core.events import Emit, Event, FinalsStarted, Finished, Note, TrialDone, ignore
from ..corpus.kernels import ATTENTION_KERNEL, KernelFile
from ..corpus.problems import ATTENTION, find_problem
from ..evaluators.loop_simulator import SimulatedLoop
from ..evaluators.settings import Limits, Settings
from ..evaluators.simulated import SimulatedEvaluator, simulated_ms
from ..tuners import catalogue
from ..tuners.schedule.attention import BY_HAND, CLOCKS, AttentionShape, Rates, attention_graph
from ..tuners.schedule.bounds import require_interval
from ..tuners.schedule.climb import ScheduleClimb
from ..tuners.schedule.files import load_schedule
from ..tuners.schedule.fitting import MOST, fit_rates, read_rates, write_rates
from ..tuners.schedule.folder import TuningFolder
from ..tuners.schedule.graph import aligned
from ..tuners.schedule.modulo import modulo_schedule, schedule_in_order, shortest_schedule
from ..tuners.schedule.priorities import RandomKeys, key_space
from ..tuners.schedule.sdpa import SdpaBackend as Library
from ..tuners.schedule.sdpa import problem_by
from ..tuners.schedule.space import ScheduleSpace
from ..tuners.search import Search
from .attention_result import ScheduleResult, loop_in
from .devices import CPU, choose_device
from .evaluators import at_workloads, search_evaluator
from .jobs import Job, open_journal, run_record
from .options.attention import OWN_TUNERS, AttentionConfig
from .options.trust import TimingOptions, settings_of

_log = logging.getLogger(__name__)

COMPILE_S = 120.0
NO_TRACES = "timed with CUDA events: no traces of a profiler are taken"
OVERHEAD = 40
"""Cycles of the model for loading Q and writing the result."""
WRITTEN = ("schedules/schedule_*", "traces/trace_*", "*.png", "final_results.json", "attention_*.py")
"""Files of a search. A new search removes them, so that none are left if it fails."""


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
        return ScheduleSpace(lambda tiles: attention_graph(self.shape, tiles, rates), tiles)

    def _name(self) -> str:
        """Name of the problem's folder, always the same, so that a search can resume."""
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

    def run(self, emit: Emit) -> ScheduleResult:
        """Search as `optimize` does, and report events."""
        return self._run(self.config, emit)

    def _run(self, config: AttentionConfig, emit: Emit) -> ScheduleResult:
        start = self.start(config)
        job, device = self.job(config)
        with (
            open_journal(self.folder, config.resume, run_record(job, config.tuner)) as journal,
            _evaluator(self, config, device) as evaluator,
        ):
            for path in () if config.resume else [path for pattern in WRITTEN for path in self.folder.glob(pattern)]:
                path.unlink()
            folder = TuningFolder(self.folder, self.space)
            # The configs that the climb asks for depend on its seed. The journal gives it the known ones.
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
            result = self._finish(config, ScheduleResult(self.space, job, found, folder))
            if not config.simulate and result.best is not None:
                result = replace(result, beside_cudnn=_beside_cudnn(evaluator, job, result.best, emit))
        return result

    def _finish(self, config: AttentionConfig, result: ScheduleResult) -> ScheduleResult:
        found, folder = result.found, result.folder
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
                write_rates(folder.path / "rates.json", rates, error, min(count, MOST), result.job.label)
        return result

    def loop(self, config: Config) -> SimulatedLoop | str:
        """Return the simulator's loop of a config at this problem's sizes, or why it cannot be built."""
        return self._loop_at(self.rates, self.space, config)

    def _loop_at(self, rates: Rates, space: ScheduleSpace, config: Config) -> SimulatedLoop | str:
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
        """Return the start schedule: the given one, the hand-written one, or the sequential one."""
        if config.schedule is not None:
            return load_schedule(config.schedule, self.space)
        tiles = self.space.some_tiles
        graph = self.space.graph(tiles)
        if config.interval is None:
            # Without warp roles, for which not every head dimension leaves room, the hand-written order is meaningless.
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
        """Return the tuner of a config. It asks for `start` first, then for `start` with other launch orders."""
        first = [start, *self._changed(start)]
        if config.tuner in OWN_TUNERS:
            return ScheduleClimb(self.space, config.seed, first, greedy=config.tuner == "schedule")
        chosen = catalogue.create_tuner(config.tuner, key_space(self.space), config.seed)
        return RandomKeys(chosen, self.space, config.seed, first)

    def _changed(self, start: Config) -> list[Config]:
        """Return the start with each change that no schedule of the model leads to."""
        changed = (Config({**start, **change}) for change in self.shape.first_changes())
        return [config for config in changed if config in self.space]

    def job(self, config: AttentionConfig) -> tuple[Job, str]:
        """Return the kernel and the problem at these sizes, and the device."""
        kernel: PythonKernel = KernelFile(ATTENTION_KERNEL, "attention").read()
        s = self.shape
        sizes = {
            "batch_size": s.batch, "heads": s.heads, "kv_heads": s.kv_heads, "seq_len_q": s.seq_len_q,
            "seq_len_k": s.seq_len_k, "head_dim": s.head_dim, "head_dim_kv": s.head_dim_kv, "causal": s.causal,
            "dtype": config.dtype.value,
        }  # fmt: skip
        problem = find_problem(str(ATTENTION)).read().resized("given", sizes)
        if config.simulate:
            # Times at different rates cannot be compared, so they count as another device's.
            return Job(kernel, problem, CPU, str(ATTENTION_KERNEL), where=f"simulated at {self.rates}"), CPU
        device = choose_device(config.device)
        config.check_device(device)
        if Target.of_device(device) is not Target.CUDA:
            raise DeviceError("schedules are measured on a GPU, and there is none", "use `simulate`")
        return Job(kernel, problem, device, str(ATTENTION_KERNEL)), device


def _beside_cudnn(evaluator: Evaluator, job: Job, best: Evaluation, emit: Emit) -> Evaluation | None:
    """Return the best schedule timed interleaved with cuDNN's attention; None if cuDNN refuses the problem."""
    try:
        problem = problem_by(Library.CUDNN, TorchProblem.of(job.problem))
        (found,) = evaluator.compare(problem, job.kernel, [Config(best.config)])
    except KernelwrightError as error:
        emit(Note(f"not compared with {Library.CUDNN}: {' '.join(str(error).split())}"))
        return None
    return found


@contextlib.contextmanager
def _evaluator(optimizer: ScheduleOptimizer, config: AttentionConfig, device: str) -> Iterator[Evaluator]:
    if config.simulate:
        yield SimulatedEvaluator(optimizer.loop)
        return
    adaptive = config.tuner in OWN_TUNERS or catalogue.adaptive(config.tuner)
    settings = settings_of(TimingOptions(), Settings(limits=Limits(compile_s=COMPILE_S)))
    with contextlib.ExitStack() as stack:
        yield at_workloads(partial(search_evaluator, [device], None, adaptive, settings), stack)


def tune_attention(config: AttentionConfig) -> tuple[dict[str, int], float]:
    """Search schedules of the attention kernel; return the best schedule and its latency in seconds.

    The schedule has a cycle for each operation. Raises `OptionError` if no schedule was correct.
    """
    result = ScheduleOptimizer(config).optimize()
    if result.best is None:
        first = next((e.message for e in result.found.evaluations if e.message), result.found.stopped)
        raise OptionError(f"no schedule was correct: {first}", f"see {result.folder.path}")
    return result.schedule, result.latency


def _keep_in_step(folder: TuningFolder, simulated: bool, emit: Emit, event: Event) -> None:
    """Write a trial to the folder, and forward the event.

    Finalists of a simulation are skipped: nothing is measured.
    """
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
