"""Let tuners search a recorded space, without a device, and show how many evaluations they need.

It starts processes, so a script must call it under `if __name__ == "__main__"`.

Exit codes: 0 finished, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from rich.table import Table

from ...core.events import Emit
from ...runtime import command, result
from ...runtime.options.option import Options as BaseOptions
from ...runtime.options.option import described, option
from ...runtime.runtime import Runtime
from ...tuners import catalogue
from ...tuners.recording import Recording
from ...tuners.replay import ReplayTask, Summary, load, replay_all

EXAMPLES = ("tune replay recorded.csv.gz --tuner portfolio --tuner random --seeds 10",)
POSITIONAL = ("file",)
TO_STDERR = True


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Let tuners search a recorded space."""

    file: Path = field(
        kw_only=False,
        metadata=described("A recorded search: CSV, journal, Kernel Tuner cache or T4 results; may be gzipped."),
    )
    tuner: tuple[str, ...] = option(
        (), "A tuner to replay, several times for several: {choices}. By default all.", choices=catalogue.choices
    )
    seeds: int = option(30, "Searches per tuner, each from its own seed.", at_least=1)
    budget: int = option(500, "Unique evaluations per search.", at_least=1)
    warm: Path | None = option(
        None, "A recording of the same parameters on another GPU or shape to learn from.", metavar="FILE"
    )
    batch: int = option(1, "Configs that a tuner returns at a time.", at_least=1)

    def check(self) -> None:
        """Raise `OptionError` for a tuner that is not there."""
        super().check()
        for name in self.tuner:
            catalogue.check(name)


@dataclass(frozen=True)
class Plan(command.Plan):
    """The recording, and the tuners that search it."""

    recording: Recording = field(metadata=command.NOT_SHOWN)
    tuners: list[str]
    seeds: int
    task: ReplayTask = field(metadata=command.NOT_SHOWN)


class Result(result.Result):
    """The number of evaluations that tuners need in a recorded space."""

    inlined: ClassVar = ("summaries",)
    recording: result.ForPython[Recording]
    summaries: Mapping[str, Summary]
    """By tuner."""

    def lines(self) -> Iterator[Any]:
        """The recording in a line, and one row per tuner."""
        recording = self.recording
        config, best_ms = recording.best
        yield f"{recording.name}: {recording.space.size} configs, best {best_ms:.6g} ms ({config})"
        yield _table(self.summaries)


def plan(options: Options, runtime: Runtime) -> Plan:
    """Read the recording."""
    recording, _ = load(options.file, options.warm)
    names = list(options.tuner) or catalogue.names()
    return Plan(recording, names, options.seeds, ReplayTask(options.file, options.warm, options.budget, options.batch))


def run(plan: Plan, emit: Emit) -> Result:
    """Let each tuner search the recording."""
    return Result(recording=plan.recording, summaries=replay_all(plan.task, plan.tuners, plan.seeds, emit))


def _table(summaries: Mapping[str, Summary]) -> Table:
    any_summary = next(iter(summaries.values()))
    columns = [column for percent in (95, 99) for column in (f">to {percent} %: median", ">p90", ">reached")]
    title = f"unique evaluations, {any_summary['seeds']} seeds, budget {any_summary['budget']}"
    table = result.table("tuner", *columns, ">best ms, median", ">overhead ms", title=title)
    for name, summary in summaries.items():
        cells = [name]
        for percent in (95, 99):
            cells += [_count(summary[f"{which}_evaluations_to_{percent}"]) for which in ("median", "p90")]
            cells.append(f"{summary[f'reached_{percent}']:.0%}")
        best = summary["median_best_ms"]
        table.add_row(*cells, "-" if best is None else f"{best:.6g}", f"{summary['overhead_ms_per_trial']:.3g}")
    return table


def _count(evaluations: float | None) -> str:
    return "-" if evaluations is None else f"{evaluations:g}"
