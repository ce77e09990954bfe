"""`replay`: tuners over a recorded space, the seeds over all cores."""

from __future__ import annotations

import functools
import multiprocessing
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

from ..core import KernelwrightError, SearchSpace, Tuner
from ..core.events import Emit, Finished, Step
from ..evaluators.pipeline.processes import cores
from ..tuners import catalogue
from ..tuners.formats import read_recording
from ..tuners.recording import Recording
from ..tuners.replay import Replay, Summary, replay, summarize
from ..tuners.start import Warm
from .options.tune import ReplayOptions


class ReplayError(KernelwrightError):
    """A process of the replay died."""

    exit_code = 1


@dataclass(frozen=True)
class ReplayResult:
    """The number of evaluations that tuners need in a recorded space."""

    recording: Recording
    summaries: Mapping[str, Summary]
    """By tuner."""

    def summary(self) -> dict[str, Summary]:
        """The metrics as plain data."""
        return dict(self.summaries)


def run_replay(options: ReplayOptions, emit: Emit) -> ReplayResult:
    """Let each tuner search the recording from as many seeds, over all cores. `ReplayError` when a process dies."""
    recording, _ = _load(options.file, options.warm)
    names = list(options.tuner) or catalogue.names()
    try:
        replays = _replay_all(options, names, emit)
    except BrokenProcessPool:
        raise ReplayError("a process of the replay died, perhaps out of memory", "try fewer tuners") from None
    finally:
        emit(Finished())
    return ReplayResult(recording, {name: summarize(replays[name]) for name in names})


def _load(file: Path, warm: Path | None) -> tuple[Recording, Warm]:
    recording = read_recording(file)
    return recording, read_recording(warm).within(recording.space) if warm else ()


def _replay_all(options: ReplayOptions, names: Sequence[str], emit: Emit) -> dict[str, list[Replay]]:
    tasks = [(name, seed) for name in names for seed in range(options.seeds)]
    done: dict[tuple[str, int], Replay] = {}
    unwatched = replace(options, on_event=None)  # what goes to other processes
    finished_seeds = dict.fromkeys(names, 0)
    with _pool(min(cores(), len(tasks))) as pool:
        for name in names:
            emit(Step(name, options.seeds))
        # Not `as_completed`, which locks all futures at once: interrupted there, the pool would wait for them for good.
        finished = SimpleQueue[Future[Replay]]()
        with _held_back_interrupt():
            futures = {pool.submit(_search, unwatched, *task): task for task in tasks}
            for future in futures:
                future.add_done_callback(finished.put)
        for _ in tasks:
            future = finished.get()
            name, _ = task = futures[future]
            done[task] = future.result()
            finished_seeds[name] += 1
            emit(Step(name, options.seeds, finished_seeds[name]))
    return {name: [done[name, seed] for seed in range(options.seeds)] for name in names}


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that are stopped at once when the work is given up."""
    before = set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            yield pool
        except BaseException:
            # Without its processes the pool drops its queue; an orderly shutdown would finish running work.
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            raise


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
    """What a process needs for every seed, read once.

    Each reads the file itself: a config keeps its hash, and the hashes of texts differ between processes.
    """
    return _load(file, warm)


def _search(options: ReplayOptions, name: str, seed: int) -> Replay:
    recording, warm = _loaded(options.file, options.warm)

    def make(space: SearchSpace, seed: int) -> Tuner:
        return catalogue.create(name, space, seed, warm)

    return replay(recording, make, seed, options.budget, options.batch)
