"""The plots of a report as inline SVG, drawn in the page's own colours so that they follow its light and dark."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from .plot import Colors, Point, draw_convergence

if TYPE_CHECKING:
    from ..agent.history.run import History
    from ..core import Profile

# Matplotlib wants colours; the page puts its own in their place.
INK, MUTED, LINE, ACCENT, GOOD, BAD = (f"#0{i}0{i}0{i}" for i in range(1, 7))
_VARIABLES = dict(
    zip((INK, MUTED, LINE, ACCENT, GOOD, BAD), ("ink", "muted", "line", "accent", "good", "bad"), strict=True)
)
SIZE = (5.6, 3.7)
"""Inches. Small, so that its text stays readable when a phone scales it down."""


def convergence(history: History) -> str | None:
    """Each trial's median time and the best so far, over the trials; None when nothing was timed."""
    times = [trial.metrics.latency_ms for trial in history.trials if trial.metrics.latency_ms]
    if not times:
        return None
    figure, axes = _axes("trial", "median time of a call, ms")
    points = [
        Point(trial.metrics.latency_ms or None, trial.origin == "final", not trial.metrics.trusted)
        for trial in history.trials
    ]
    draw_convergence(axes, points, Colors(trial=MUTED, best=ACCENT, final=GOOD, failed=BAD))
    _mark_turns(axes, [trial.origin for trial in history.trials])
    axes.set_ylim(min(times) / 1.35, max(times) * 1.25)
    _plain_ticks(axes.yaxis)
    axes.legend(loc="upper right", frameon=False, fontsize=9, labelcolor=MUTED, handlelength=1.4)
    return _svg(figure, "convergence")


def roofline(history: History) -> str | None:
    """Start and best under the measured ceilings; None when the work is unknown, is no arithmetic, or was not timed."""
    profile, start, best = history.profile, history.start, history.best
    if profile is None or not profile.flops or start is None or not start.latency_ms:
        return None
    figure, axes = _axes("operations per byte that must move", "GFLOP/s")
    x = profile.intensity
    points = [("start", start.latency_ms, MUTED)]
    if best is not None and best.latency_ms and best.latency_ms != start.latency_ms:
        points.append(("best", best.latency_ms, GOOD))
    rates = [profile.flops / ms / 1e6 for _, ms, _ in points]
    _draw_ceilings(axes, profile, rates)
    between = [turn.metrics.latency_ms for turn in history.turns if turn.metrics and turn.metrics.latency_ms]
    axes.scatter([x] * len(between), [profile.flops / ms / 1e6 for ms in between], s=12, color=MUTED, zorder=3)
    roof = profile.flops / profile.floor_ms / 1e6
    axes.plot([x, x], [min(rates), roof], color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
    for (name, ms, color), rate, side in zip(points, rates, (-1, 1), strict=False):
        axes.scatter([x], [rate], s=46, color=color, zorder=4)
        axes.annotate(
            f"{name} {ms:.3g} ms", (x, rate), (side * 9, 0), textcoords="offset points", color=INK, fontsize=10,
            va="center", ha="left" if side > 0 else "right",
        )  # fmt: skip
    axes.scatter([x], [roof], s=60, marker="_", color=INK, zorder=4)
    axes.annotate(
        f"floor {profile.floor_ms:.3g} ms", (x, roof), (9, -4), textcoords="offset points", color=MUTED, fontsize=10,
        ha="left", va="top",
    )  # fmt: skip
    return _svg(figure, "roofline")


def _draw_ceilings(axes: Any, profile: Profile, rates: list[float]) -> None:
    bandwidth, peak, x = profile.ceilings.copy_gb_s, profile.matrix_gflop_s, profile.intensity
    ridge = peak / bandwidth
    left, right = min(x, ridge) / 20, max(x, ridge) * 20
    axes.plot([left, ridge, right], [left * bandwidth, peak, peak], color=ACCENT)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(min(*rates, left * bandwidth) / 1.5, max(peak, *rates) * 3)
    axes.annotate(
        f"matrix product {peak:.4g} GFLOP/s", (right, peak), (-4, 5), textcoords="offset points", color=ACCENT,
        fontsize=10, ha="right",
    )  # fmt: skip
    axes.annotate(
        f"copy {bandwidth:.4g} GB/s", (left, left * bandwidth), (6, -2), textcoords="offset points", color=ACCENT,
        fontsize=10, va="top",
    )  # fmt: skip
    _plain_ticks(axes.xaxis)
    _plain_ticks(axes.yaxis)


def _mark_turns(axes: Any, origins: list[str]) -> None:
    """A thin line and the number where a turn's trials begin."""
    seen: set[str] = set()
    for i, origin in enumerate(origins, start=1):
        found = re.match(r"turn (\d+)", origin)
        if found and found[1] not in seen:
            seen.add(found[1])
            axes.axvline(i - 0.5, color=LINE, linewidth=1, zorder=0)
            axes.annotate(
                f"turn {found[1]}" if len(seen) == 1 else found[1], (i - 0.5, 1), (3, 3), color=MUTED, fontsize=9,
                xycoords=axes.get_xaxis_transform(), textcoords="offset points",
            )  # fmt: skip


def _axes(x: str, y: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained", facecolor="none")
    axes = figure.add_subplot(facecolor="none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINE)
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", color=LINE, labelcolor=MUTED, labelsize=10)
    axes.set_xlabel(x, color=MUTED, fontsize=10)
    axes.set_ylabel(y, color=MUTED, fontsize=10)
    return figure, axes


def _plain_ticks(axis: Any) -> None:
    """Numbers as people write them, at the ones, twos and fives when a range is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _svg(figure: Any, name: str) -> str:
    """The figure as an <svg> element: text as text, the page's colours, ids that no other plot of the page has."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    drawn = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    # A context, so that whoever calls this keeps their own settings.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(drawn, metadata=nothing)
    svg = drawn.getvalue()
    svg = svg[svg.index("<svg") :]
    for color, variable in _VARIABLES.items():
        svg = svg.replace(color, f"var(--{variable})")
    # Its one style rule names every element: here that would be the page's too, which has the rule for its plots.
    svg = re.sub(r"<defs>\s*<style.*?</defs>", "", svg, count=1, flags=re.DOTALL)
    # Namespaces belong to XML, and in HTML only look like addresses; the width is the page's to choose.
    svg = re.sub(r'(?<=\s)(xmlns(:\w+)?|width|height)="[^"#]*"', "", svg[: svg.index(">")]) + svg[svg.index(">") :]
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
