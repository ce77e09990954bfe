"""The convergence of trials: the figure of a search, and what a report draws of a run."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.files import write_whole
from ..tuners.search import Found


@dataclass(frozen=True)
class Point:
    """One trial: its median time, None where it failed."""

    ms: float | None
    final: bool = False
    disturbed: bool = False


@dataclass(frozen=True)
class Colors:
    """As matplotlib names them."""

    trial: str
    best: str
    final: str
    failed: str


PLAIN = Colors(trial="0.6", best="C0", final="C2", failed="C3")


def draw_convergence(axes: Any, points: Sequence[Point], colors: Colors) -> None:
    """Each trial's time and the best so far, over the trials; failures are marked at the bottom.

    Disturbed ones are drawn hollow, and count for the best only where all were disturbed. One must have been timed.
    """
    timed = [(i, point, point.ms) for i, point in enumerate(points, start=1) if point.ms is not None]
    failed = [i for i, point in enumerate(points, start=1) if point.ms is None]
    tried = [(i, ms) for i, point, ms in timed if not (point.disturbed or point.final)]
    disturbed = [(i, ms) for i, point, ms in timed if point.disturbed]
    finals = [(i, ms) for i, point, ms in timed if point.final and not point.disturbed]
    counted = [(i, ms) for i, point, ms in timed if not point.disturbed or len(disturbed) == len(timed)]
    best = list(itertools.accumulate((ms for _, ms in counted), min))
    axes.step(
        [*(i for i, _ in counted), len(points)], [*best, best[-1]], where="post", color=colors.best, label="best so far"
    )
    hollow = {"facecolors": "none", "edgecolors": colors.trial, "s": 18, "linewidths": 1}
    for some, style in (
        (tried, {"color": colors.trial, "s": 16, "label": "trial"}),
        (disturbed, {**hollow, "label": "disturbed by others"}),
        (finals, {"color": colors.final, "s": 30, "marker": "D", "label": "final check"}),
    ):
        if some:
            axes.scatter(*zip(*some, strict=True), zorder=3, **style)
    if failed:
        bottom = axes.get_xaxis_transform()
        axes.scatter(
            failed, [0.03] * len(failed), marker="x", s=22, color=colors.failed, transform=bottom, label="failed"
        )
    axes.set_yscale("log")
    axes.set_xlim(0.4, len(points) + 0.6)
    axes.xaxis.get_major_locator().set_params(integer=True)


def plot_convergence(path: Path, found: Found, name: str, device: str) -> None:
    """A PNG of a search in which something was timed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    draw_convergence(axes, [Point(evaluation.latency_ms) for evaluation in found.evaluations], PLAIN)
    if found.start and found.start.latency_ms:
        axes.axhline(found.start.latency_ms, color="C3", linestyle="--", linewidth=1, label="as shipped")
    axes.set_xlabel("trial")
    axes.set_ylabel("median latency, ms")
    axes.set_title(f"{name} on {device}")
    axes.legend()
    image = io.BytesIO()
    FigureCanvasAgg(figure).print_png(image)
    write_whole(path, image.getvalue())
