"""Search modulo schedules of an attention kernel: cycles of its operations, their interval, and tiles.

Exit codes: 0 a schedule is faster, 1 none was correct, 2 wrong usage, 3 nothing faster was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from rich.markup import escape
from rich.text import Text

from ...core import Config
from ...core.events import Emit, PartDone
from ...runtime import command, result
from ...runtime.attention import ScheduleOptimizer
from ...runtime.attention_result import ScheduleResult
from ...runtime.command import search_code
from ...runtime.options.attention import AttentionConfig as Options
from ...runtime.result import beside_reference
from ...runtime.runtime import Runtime
from ...tuners.schedule.sdpa import SdpaBackend

__all__ = ["Options", "Plan", "Result", "plan", "run"]

EXAMPLES = (
    "tune attention --seq-len-q 4096 --head-dim 128 --trials 200 --plot",
    "tune attention --seq-len-q 4096 --head-dim 128 --simulate",
)


@dataclass(frozen=True)
class Plan(command.Plan):
    """A search of schedules, and its folder."""

    folder: Path
    tuner: str
    trials: int
    simulate: bool
    optimizer: ScheduleOptimizer = field(metadata=command.NOT_SHOWN)


class Result(result.Result):
    """A finished search, and its folder."""

    inlined: ClassVar = ("record",)
    searched: result.ForPython[ScheduleResult]

    @result.computed
    def record(self) -> dict[str, Any]:
        """The folder's summary; times in microseconds."""
        return self.searched.summary()

    @property
    def exit_code(self) -> int:
        """0 if a schedule is faster, 1 if none was correct."""
        best = self.searched.best
        return search_code(best is not None and best.ok, self.searched.faster)

    @property
    def failure(self) -> str:
        """Why there is no best schedule."""
        found = self.searched.found
        if self.searched.best is not None:
            return ""
        why = next((e.message for e in found.evaluations if e.message), found.stopped)
        folder = escape(str(self.searched.folder.path))
        return f"no schedule was correct, first: {escape(why)}; all are in {folder}"

    def lines(self) -> Iterator[Any]:
        """The best schedule, its time compared with the kernel's own, and the files."""
        searched = self.searched
        best, own = searched.best, searched.found.start
        assert best is not None
        shown = Config({name: best.config[name] for name in searched.space.names})
        yield Text.from_markup(f"best of {searched.iterations} schedules: [bold]{escape(str(shown))}[/]")
        kind = "simulated, not measured: " if searched.simulated else ""
        ratio = "" if searched.faster else ", [bold]not faster than the kernel's own schedule[/]"
        if searched.faster and own is not None and own.latency_ms:
            times = own.latency_ms / 1e3 / searched.latency
            ratio = f", {times:.2f} times as fast as the kernel's own schedule"
        if best.speedup:
            ratio += f"; {best.speedup} against the reference{escape(beside_reference(best))}"
        stopped = escape(searched.found.stopped)
        yield Text.from_markup(f"{kind}{1e3 * searched.latency:.4f} ms{ratio}; stopped: {stopped}")
        if searched.times_cudnn is not None:
            yield f"{searched.times_cudnn:.3f} times as fast as {SdpaBackend.CUDNN}"
        if searched.faster:
            yield f"kernel: {searched.kernel_path}"
        yield f"folder: {searched.folder.path}"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Make the space of schedules."""
    optimizer = ScheduleOptimizer(options)
    return Plan(optimizer.folder, options.tuner, options.trials, options.simulate, optimizer)


def run(plan: Plan, emit: Emit) -> Result:
    """Search, and write the folder."""
    found = Result(searched=plan.optimizer.run(emit))
    emit(PartDone(found))  # with `--json` too it is said that nothing was measured
    return found
