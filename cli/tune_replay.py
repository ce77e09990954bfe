"""Tuners over a recorded space: the seeds over all cores, the figures as a table or JSON."""

from __future__ import annotations

import functools
import json
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..core import OptionError, SearchSpace, Tuner
from ..evaluators.pipeline.processes import cores
from ..tuners import catalogue
from ..tuners.formats import read_recording
from ..tuners.recording import Recording
from ..tuners.replay import Replay, Summary, replay, summarize
from ..tuners.start import Warm
from .console import console


@dataclass(frozen=True)
class ReplayRequest:
    """The options of `tune replay`."""

    file: Path
    tuners: tuple[str, ...] = ()
    """By name; none means all."""
    seeds: int = 30
    budget: int = 500
    warm: Path | None = None
    batch: int = 1
    json: bool = False

    def check(self) -> None:
        """Raise `OptionError` for what cannot be done."""
        for option, value in {"--seeds": self.seeds, "--budget": self.budget, "--batch": self.batch}.items():
            if value < 1:
                raise OptionError(f"{option} must be at least 1, not {value}")
        for name in self.tuners:
            catalogue.check(name)

    def load(self) -> tuple[Recording, Warm]:
        recording = read_recording(self.file)
        return recording, read_recording(self.warm).within(recording.space) if self.warm else ()


def run_replay(request: ReplayRequest) -> int:
    """The exit code of `tune replay`."""
    request.check()
    recording, _ = request.load()
    names = list(dict.fromkeys(request.tuners)) or catalogue.names()
    try:
        replays = _replay_all(request, names)
    except BrokenProcessPool:
        typer.echo("error: a process of the replay died, perhaps for want of memory; try fewer tuners", err=True)
        return 1
    summaries = {name: summarize(replays[name]) for name in names}
    if request.json:
        typer.echo(json.dumps(summaries, allow_nan=False))
    else:
        _print(recording, summaries)
    return 0


def _replay_all(request: ReplayRequest, names: Sequence[str]) -> dict[str, list[Replay]]:
    tasks = [(name, seed) for name in names for seed in range(request.seeds)]
    done: dict[tuple[str, int], Replay] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    screen = console(stderr=True)
    with (
        _pool(min(cores(), len(tasks))) as pool,
        Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bars,
    ):
        rows = {name: bars.add_task(name, total=request.seeds) for name in names}
        with _held_back_interrupt():
            futures: dict[Future[Replay], tuple[str, int]] = {
                pool.submit(_search, request, *task): task for task in tasks
            }
        for future in as_completed(futures):
            name, _ = task = futures[future]
            done[task] = future.result()
            bars.advance(rows[name])
    return {name: [done[name, seed] for seed in range(request.seeds)] for name in names}


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that are stopped at once when the work is given up."""
    before = set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            yield pool
        except BaseException:
            # Without its processes the pool gives up what is queued; asked politely it would finish what runs.
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            raise


@contextmanager
def _held_back_interrupt() -> Iterator[None]:
    """Block Ctrl-C; processes started meanwhile stay deaf to it, and leave it to the parent to end them."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@functools.lru_cache(maxsize=1)
def _loaded(request: ReplayRequest) -> tuple[Recording, Warm]:
    """What a process needs for every seed, read once.

    Each reads the file itself: a config keeps its hash, and the hashes of texts differ between processes.
    """
    return request.load()


def _search(request: ReplayRequest, name: str, seed: int) -> Replay:
    recording, warm = _loaded(request)

    def make(space: SearchSpace, seed: int) -> Tuner:
        return catalogue.create(name, space, seed, warm)

    return replay(recording, make, seed, request.budget, request.batch)


def _print(recording: Recording, summaries: dict[str, Summary]) -> None:
    any_summary = next(iter(summaries.values()))
    screen = console()
    screen.print(
        f"{escape(recording.name)}: {recording.space.size} configs, best {recording.best[1]:.6g} ms "
        f"({escape(str(recording.best[0]))})"
    )
    table = Table(
        title=f"unique evaluations, {any_summary['seeds']} seeds, budget {any_summary['budget']}",
        title_justify="left",
    )
    table.add_column("tuner")
    for percent in (95, 99):
        for column in (f"to {percent} %: median", "p90", "reached"):
            table.add_column(column, justify="right")
    table.add_column("best ms, median", justify="right")
    table.add_column("overhead ms", justify="right")
    for name, summary in summaries.items():
        cells = [name]
        for percent in (95, 99):
            cells += [_count(summary[f"{which}_evaluations_to_{percent}"]) for which in ("median", "p90")]
            cells.append(f"{summary[f'reached_{percent}']:.0%}")
        best = summary["median_best_ms"]
        table.add_row(*cells, "-" if best is None else f"{best:.6g}", f"{summary['overhead_ms_per_trial']:.3g}")
    screen.print(table)


def _count(evaluations: float | None) -> str:
    return "-" if evaluations is None else f"{evaluations:g}"
