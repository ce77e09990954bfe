"""The result of a schedule search: the best schedule, plots, traces."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import Config, Evaluation, Origin
from ..core.files import write_whole
from ..evaluators.loop_simulator import SimulatedLoop, SimulatedStep, Wait, simulate
from ..tuners.schedule.folder import TuningFolder
from ..tuners.schedule.graph import Graph, Schedule, order_and_stage, refusal, versions
from ..tuners.schedule.space import ScheduleSpace
from ..tuners.search import Found
from .jobs import Job
from .plots import PAPER, png_of, write_search_plot

MakeLoop = Callable[[Config], SimulatedLoop | str]
SHOWN = 4
"""Iterations in a Gantt chart."""
LETTERS = 150
"""Number of label characters in the width of a chart."""


@dataclass(frozen=True)
class ScheduleResult:
    """A finished search, and its folder."""

    space: ScheduleSpace
    job: Job
    found: Found
    folder: TuningFolder
    beside_cudnn: Evaluation | None = None
    """The best schedule with cuDNN's attention as reference, timed interleaved; None if they were not compared."""

    @property
    def times_cudnn(self) -> float | None:
        """Speedup over cuDNN's attention."""
        beside = self.beside_cudnn
        if beside is None or beside.reference is None or not beside.latency_ms:
            return None
        return beside.reference.median_ms / beside.latency_ms

    @property
    def best(self) -> Evaluation | None:
        """The winner; None when nothing was correct."""
        return self.found.best

    @property
    def faster(self) -> bool:
        """Whether the winner is significantly faster than the kernel's own schedule, or the latter could not be
        measured.
        """
        best = self.best
        if best is None or not best.ok or self.job.kernel.bind(best.config).digest == self.job.kernel.digest:
            return False
        return self.found.surely_faster

    @property
    def simulated(self) -> bool:
        """Whether no kernel ran."""
        return any(evaluation.origin is Origin.SIMULATED for evaluation in self.found.evaluations)

    @property
    def schedule(self) -> dict[str, int]:
        """The best schedule: each operation's cycle. Empty when nothing was correct."""
        return self.space.schedule_of(self.best.config)[0] if self.best else {}

    @property
    def latency(self) -> float:
        """Seconds of the best schedule; infinite when nothing was correct."""
        return (self.best.latency_ms or 0.0) / 1e3 if self.best else float("inf")

    @property
    def improvement_history(self) -> list[float]:
        """Seconds of the first success, and of each schedule that was faster than all before it."""
        return [(improvement.latency_ms or 0.0) / 1e3 for improvement in self.folder.improvements]

    @property
    def iterations(self) -> int:
        """Schedules that were tried."""
        return self.found.progress.trials

    @property
    def kernel_path(self) -> Path:
        """The kernel with the best schedule as its constants."""
        return self.folder.path / "attention_tuned.py"

    def write_kernel(self) -> None:
        """Write the tuned kernel, with evidence if it was measured, and the problem at its sizes.

        `optimize attention_tuned.py --problem attention_problem.py` continues from there.
        """
        problem = self.job.problem
        write_whole(self.kernel_path, self.found.source(self.job.kernel, problem))
        text = problem.source
        for name, value in problem.sizes.items():
            text = re.sub(rf"^{name} = .*$", f"{name} = {value!r}", text, flags=re.MULTILINE)
        write_whole(self.folder.path / "attention_problem.py", text)

    def summary(self) -> dict[str, Any]:
        """Return what --json prints, with times in microseconds."""
        said: dict[str, Any] = json.loads((self.folder.path / "final_results.json").read_text())
        return {**said, "times_cudnn": self.times_cudnn, "folder": str(self.folder.path)}

    def write_trace(self, path: Path, evaluation: Evaluation, make: MakeLoop) -> None:
        """Write the simulated execution in the Trace Event format that browsers' profilers and Perfetto read."""
        loop = make(Config(evaluation.config))
        assert not isinstance(loop, str)
        lanes = {step.name: step for step in loop.steps}
        events = [
            {
                "name": name, "ph": "X", "pid": 0, "tid": _lane(lanes[name].uses), "args": {"iteration": iteration},
                "ts": start * loop.cycle_us, "dur": lanes[name].reading * loop.cycle_us,
            }
            for (name, iteration), start in simulate(loop).starts.items()
        ]  # fmt: skip
        write_whole(path, json.dumps({"otherData": {"simulated": True}, "traceEvents": events}) + "\n")

    def plot(self, make: MakeLoop) -> None:
        """Draw the convergence, and the first and the best schedule as the simulator executes them."""
        kind = "simulated" if self.simulated else self.job.label
        write_search_plot(self.folder.path / "convergence.png", self.found, f"attention schedules, {kind}")
        shown = [("before", self.folder.improvements[0])] if self.folder.improvements else []
        shown += [("after", self.best)] if self.best else []
        loops = [(name, make(Config(evaluation.config))) for name, evaluation in shown]
        drawn = [(name, loop) for name, loop in loops if isinstance(loop, SimulatedLoop)]
        if drawn:
            write_whole(self.folder.path / "schedules.png", _gantt(drawn))


def _lane(uses: Any) -> str:
    return max(uses, key=lambda name: sum(uses[name]), default="none")


def _gantt(loops: list[tuple[str, SimulatedLoop]]) -> bytes:
    """Draw the first iterations of each loop: a row for each resource, a colour for each iteration."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2.6 * len(loops)), facecolor="white", layout="constrained")
    colors = (PAPER.accent, PAPER.good, PAPER.bad, PAPER.muted)
    runs = [(title, loop, simulate(loop)) for title, loop in loops]
    longest = max(
        start + step.reading
        for _, loop, run in runs
        for step in loop.steps
        for (name, iteration), start in run.starts.items()
        if name == step.name and iteration < SHOWN
    )
    for number, (title, loop, run) in enumerate(runs, start=1):
        axes = figure.add_subplot(len(loops), 1, number)
        rows = sorted({_lane(step.uses) for step in loop.steps})
        steps = {step.name: step for step in loop.steps}
        for (name, iteration), start in run.starts.items():
            if iteration >= SHOWN:
                continue
            row, width = rows.index(_lane(steps[name].uses)), steps[name].reading
            axes.barh(row, width, left=start, height=0.7, color=colors[iteration % 4], edgecolor="white")
            label = name.removeprefix("COPY_")  # the row says so
            if LETTERS * width >= longest * len(label):
                axes.text(start + width / 2, row, label, ha="center", va="center", fontsize=6, color="white")
        axes.set_yticks(range(len(rows)), rows)
        axes.set_title(f"{title}: {run.interval:g} cycles per iteration (simulated)", fontsize=10, loc="left")
        axes.set_xlabel("cycle of the model; a colour for each iteration")
        axes.set_xlim(0, longest)
    return png_of(figure)


def loop_of(graph: Graph, schedule: Schedule, interval: int, iterations: int) -> SimulatedLoop:
    """Return the body that a schedule gives: order, stages, versions of the results."""
    orders, stages = order_and_stage(graph, schedule, interval)
    kept = versions(graph, schedule, interval)
    loads = graph.roles.loading if graph.roles else ()
    steps = [
        SimulatedStep(o.name, stage, o.latency, o.uses, kept[o.name], "load" if o.name in loads else "compute")
        for _, o, stage in sorted(zip(orders, graph.operations, stages, strict=True), key=lambda entry: entry[0])
    ]
    waits = [Wait(e.source, e.target, e.latency, e.distance, e.carries_data) for e in graph.edges]
    return SimulatedLoop(tuple(steps), tuple(waits), graph.limits, iterations)


def loop_in(space: ScheduleSpace, config: Config, iterations: int) -> SimulatedLoop | str:
    """Return the loop of a config, which may contain further constants, or the reason why it cannot be built."""
    graph, (schedule, interval) = space.graph(space.tiles_of(config)), space.schedule_of(config)
    return refusal(graph, schedule, interval) or loop_of(graph, schedule, interval, iterations)
