"""Figures of a search."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

from ..core.files import write_whole
from ..tuners.search import Found


def plot_convergence(path: Path, found: Found, name: str, device: str) -> None:
    """Each trial's time and the best so far, over the trials; failures are marked at the bottom."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    timed = [(i, e.latency_ms) for i, e in enumerate(found.evaluations, start=1) if e.latency_ms is not None]
    failed = [i for i, e in enumerate(found.evaluations, start=1) if e.latency_ms is None]
    trials, times = zip(*timed, strict=True)
    best = list(itertools.accumulate(times, min))
    axes.scatter(trials, times, s=14, color="0.6", label="trial")
    axes.step([*trials, len(found.evaluations)], [*best, best[-1]], where="post", color="C0", label="best so far")
    if found.start and found.start.latency_ms:
        axes.axhline(found.start.latency_ms, color="C3", linestyle="--", linewidth=1, label="as shipped")
    if failed:
        marks = axes.get_xaxis_transform()
        axes.scatter(failed, [0.02] * len(failed), s=18, marker="x", color="C3", transform=marks, label="failed")
    axes.set_yscale("log")
    axes.set_xlabel("trial")
    axes.set_ylabel("median latency, ms")
    axes.set_title(f"{name} on {device}")
    axes.legend()
    image = io.BytesIO()
    FigureCanvasAgg(figure).print_png(image)
    write_whole(path, image.getvalue())
