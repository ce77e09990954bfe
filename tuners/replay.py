"""Searches over a recording: simulates tuners without a device, the seeds over all cores.

The processes of a replay import this alone.
"""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing
import os
import signal
import statistics
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import cast

from ..core import Config, KernelwrightError, OptionError, SearchSpace, Tuner
from ..core.environment import cores
from ..core.events import Emit, Step
from . import catalogue
from .formats import read_recording
from .recording import Recording
from .start import Warm

SHARES = (0.95, 0.99)
"""Shares of the best config's speed by which searches are compared."""

MakeTuner = Callable[[SearchSpace, int], Tuner]


@dataclass(frozen=True)
class ReplayedSearch:
    """One search, from one seed."""

    budget: int
    size: int
    """Configs in the space."""
    best_ms: float
    """The best time of the space, found or not."""
    curve: tuple[float, ...]
    """Best time in milliseconds after each unique evaluation; infinite before the first success."""
    seconds: float
    """Seconds spent in the tuner's ask and tell."""

    def evaluations_to(self, share: float) -> int | None:
        """Return the number of unique evaluations until a config reached this fraction of the best speed, or None."""
        enough_ms = self.best_ms / share * (1 + 1e-12)
        return next((number for number, best in enumerate(self.curve, start=1) if best <= enough_ms), None)

    @property
    def found_ms(self) -> float:
        """The best time found; infinite when every config failed."""
        return self.curve[-1] if self.curve else math.inf

    @property
    def overhead_ms(self) -> float:
        """The tuner's own ms per unique evaluation."""
        return 1e3 * self.seconds / max(1, len(self.curve))


def replay(
    recording: Recording,
    make_tuner: MakeTuner,
    seed: int,
    budget: int,
    batch: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> ReplayedSearch:
    """Run a tuner until it found the best config, has evaluated `budget` different ones, or has none left.

    It is asked for `batch` configs at a time, and gets all their results before the next request. A repeated config
    costs nothing; a tuner that asks for nothing new `budget` times in a row has none left.
    """
    if min(budget, batch) < 1:
        raise OptionError(f"a replay needs a budget and a batch of at least 1, not {budget} and {batch}")
    tuner = make_tuner(recording.space, seed)
    best_ms = recording.best[1]
    evaluated: set[Config] = set()
    curve: list[float] = []
    found, seconds, stale = math.inf, 0.0, 0
    while len(curve) < budget and stale < budget and found > best_ms * (1 + 1e-9):
        started = clock()
        configs = tuner.ask(min(batch, budget - len(curve)))
        seconds += clock() - started
        if not configs:
            break
        for config in configs:
            evaluation = recording.evaluation(config)
            started = clock()
            tuner.tell(config, evaluation)
            seconds += clock() - started
            if config in evaluated:
                stale += 1
                continue
            stale = 0
            evaluated.add(config)
            found = min(found, math.inf if evaluation.latency_ms is None else evaluation.latency_ms)
            curve.append(found)
    return ReplayedSearch(budget, recording.space.size, best_ms, tuple(curve), seconds)


Summary = dict[str, float | int | None]


def summarize(replays: Sequence[ReplayedSearch]) -> Summary:
    """Summarize a tuner's results over several seeds of one recording.

    A seed that did not reach a level counts as infinitely many evaluations; an infinite metric is None. The 90th
    percentile is the smallest value that nine tenths of the seeds do not exceed.
    """
    if not replays:
        raise OptionError("there are no replays to summarize; give at least one seed")
    summary: Summary = {}
    for share in SHARES:
        needed = sorted(math.inf if n is None else n for n in (r.evaluations_to(share) for r in replays))
        percent = round(100 * share)
        summary[f"median_evaluations_to_{percent}"] = _finite(statistics.median(needed))
        summary[f"p90_evaluations_to_{percent}"] = _finite(needed[-(-9 * len(needed) // 10) - 1])
        summary[f"reached_{percent}"] = sum(map(math.isfinite, needed)) / len(needed)
    return summary | {
        "seeds": len(replays),
        "budget": replays[0].budget,
        "best_ms": replays[0].best_ms,
        "median_best_ms": _finite(statistics.median(r.found_ms for r in replays)),
        "overhead_ms_per_trial": statistics.median(r.overhead_ms for r in replays),
        "configs": replays[0].size,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


class ReplayError(KernelwrightError):
    """A process of the replay died."""

    exit_code = 1


@dataclass(frozen=True)
class ReplayTask:
    """Task of a process."""

    file: Path
    warm: Path | None
    budget: int
    """Unique evaluations of a search."""
    batch: int
    """Configs that a tuner returns at a time."""


def replay_all(task: ReplayTask, names: Sequence[str], seeds: int, emit: Emit) -> dict[str, Summary]:
    """Let each tuner search from as many seeds, over all cores. `ReplayError` when a process dies."""
    try:
        replays = _replay_all(task, names, seeds, emit)
    finally:
        for name in names:
            emit(Step(name, seeds, seeds, over=True))
    return {name: summarize(replays[name]) for name in names}


def load(file: Path, warm: Path | None) -> tuple[Recording, Warm]:
    """Return a recording, and the known times of its configs from another one."""
    recording = read_recording(file)
    return recording, read_recording(warm).within(recording.space) if warm else ()


def _replay_all(task: ReplayTask, names: Sequence[str], seeds: int, emit: Emit) -> dict[str, list[ReplayedSearch]]:
    waiting = deque((name, seed) for name in names for seed in range(seeds))
    done: dict[tuple[str, int], ReplayedSearch] = {}
    finished_seeds = dict.fromkeys(names, 0)
    with _workers(task, min(cores(), len(waiting))) as workers:
        for name in names:
            emit(Step(name, seeds))
        running = {worker: _begin(worker, waiting.popleft()) for worker in workers}
        while running:
            for worker in cast("list[_Worker]", wait(list(running))):
                name, _ = which = running.pop(worker)
                done[which] = _result(worker)
                finished_seeds[name] += 1
                emit(Step(name, seeds, finished_seeds[name]))
                if waiting:
                    running[worker] = _begin(worker, waiting.popleft())
    return {name: [done[name, seed] for seed in range(seeds)] for name in names}


_Worker = Connection
"""The connection to a process, which alone holds the other end: its death, at whatever moment, ends the connection."""


@contextmanager
def _workers(task: ReplayTask, count: int) -> Iterator[list[_Worker]]:
    """Processes that search, and that end at once with the block, and with this process."""
    context = multiprocessing.get_context("spawn")
    processes, workers = list[SpawnProcess](), list[_Worker]()
    try:
        with _held_back_interrupt():
            for _ in range(count):
                ours, theirs = context.Pipe()
                workers.append(ours)
                process = context.Process(target=_work, args=(task, theirs), daemon=True)
                process.start()
                processes.append(process)
                theirs.close()
        yield workers
    finally:
        for process in processes:
            process.kill()  # it holds no resources, and SIGTERM would wait for a stopped process
        for process in processes:
            process.join()
        for worker in workers:
            worker.close()


def _begin(worker: _Worker, which: tuple[str, int]) -> tuple[str, int]:
    with contextlib.suppress(OSError):  # it died; there will be no result
        worker.send(which)
    return which


def _result(worker: _Worker) -> ReplayedSearch:
    try:
        found = worker.recv()
    except (EOFError, OSError):
        raise ReplayError("a process of the replay died, perhaps out of memory", "try fewer tuners") from None
    if isinstance(found, Exception):
        raise found
    return cast("ReplayedSearch", found)


@contextmanager
def _held_back_interrupt() -> Iterator[None]:
    """Block Ctrl-C; processes started meanwhile ignore it, and the parent ends them."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@functools.lru_cache(maxsize=1)
def _loaded(file: Path, warm: Path | None) -> tuple[Recording, Warm]:
    """Return the data that a process needs for every seed, read once.

    Each process reads the file itself: a config keeps its hash, and hashes of strings differ between processes.
    """
    return load(file, warm)


def _work(task: ReplayTask, calls: _Worker) -> None:
    """Search for each caller, until there are no more calls."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            name, seed = calls.recv()
            calls.send(_outcome(task, name, seed))


def _end_with_parent() -> None:
    """End this process when its parent ends, even by SIGKILL and in the middle of a search."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _outcome(task: ReplayTask, name: str, seed: int) -> ReplayedSearch | Exception:
    try:
        return _search(task, name, seed)
    except Exception as error:
        error.add_note(traceback.format_exc())  # which does not pass between processes
        return error


def _search(task: ReplayTask, name: str, seed: int) -> ReplayedSearch:
    recording, warm = _loaded(task.file, task.warm)

    def make(space: SearchSpace, seed: int) -> Tuner:
        return catalogue.create_tuner(name, space, seed, warm)

    return replay(recording, make, seed, task.budget, task.batch)
