"""The plots of a run or a search: as inline SVG for a page, whose colours they follow in light and dark, or as PNG."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.files import write_whole

if TYPE_CHECKING:
    from ..agent.history.run import History
    from ..core import Profile
    from ..tuners.search import Found


@dataclass(frozen=True)
class Palette:
    """Colours as matplotlib wants them."""

    ink: str
    muted: str
    line: str
    accent: str
    good: str
    bad: str


PAGE = Palette(*(f"#0{i}0{i}0{i}" for i in range(1, 7)))
"""Placeholder colours, which `_svg` replaces by variables of the page."""
PAPER = Palette("#1c1d1f", "#62666d", "#dedfdb", "#2f5fa8", "#1d7a4c", "#b3362b")
"""The page's own colours in the light, for images that stand alone."""
SIZE = (5.6, 3.7)
"""Inches. Small, so that its text stays readable when a phone scales it down."""
FINAL = "final"


@dataclass(frozen=True)
class Tried:
    """A trial as the convergence plot shows it."""

    latency_ms: float | None
    """Time in milliseconds; None for a failed trial."""
    trusted: bool = True
    """Whether nothing disturbed its timing."""
    origin: str = ""


def convergence(history: History) -> str | None:
    """The trials of a run as SVG; None when nothing was timed."""
    tried = [Tried(t.metrics.latency_ms, t.metrics.trusted, t.origin) for t in history.trials]
    figure = draw_convergence(tried, PAGE)
    return None if figure is None else _svg(figure, "convergence")


def png_of(figure: Any) -> bytes:
    """Return a matplotlib figure as an image."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    image = io.BytesIO()
    FigureCanvasAgg(figure).print_png(image)
    return image.getvalue()


def write_search_plot(path: Path, found: Found, title: str) -> None:
    """Plot a search's trials and the unmodified kernel's time to a PNG file; nothing if nothing was timed."""
    tried = [Tried(e.latency_ms, e.contention is None) for e in found.evaluations]
    figure = draw_convergence(tried, PAPER, found.start.latency_ms if found.start else None)
    if figure is None:
        return
    figure.set(size_inches=(8, 4.5), facecolor="white")
    figure.suptitle(title, color=PAPER.ink, fontsize=12)
    write_whole(path, png_of(figure))


def draw_convergence(tried: Sequence[Tried], colors: Palette, start_ms: float | None = None) -> Any | None:
    """Each trial's median time and the best so far, over the trials; failures are marked at the bottom.

    A matplotlib figure; None when nothing was timed. `start_ms` is drawn as a line.
    """
    trials = list(enumerate(tried, start=1))
    timed = [(i, trial.latency_ms, trial) for i, trial in trials if trial.latency_ms]
    if not timed:
        return None
    figure, axes = _axes("trial", "median time of a call, ms", colors)
    plain = [(i, ms) for i, ms, trial in timed if trial.trusted and trial.origin != FINAL]
    unsure = [(i, ms) for i, ms, trial in timed if not trial.trusted]
    finals = [(i, ms) for i, ms, trial in timed if trial.trusted and trial.origin == FINAL]
    failed = [i for i, trial in trials if trial.latency_ms is None]
    counted = [(i, ms) for i, ms, trial in timed if trial.trusted or len(unsure) == len(timed)]
    best = list(itertools.accumulate((ms for _, ms in counted), min))
    axes.step(
        [*(i for i, _ in counted), len(trials)], [*best, best[-1]], where="post", color=colors.accent,
        label="best so far",
    )  # fmt: skip
    circle = {"facecolors": "none", "edgecolors": colors.muted, "s": 18, "linewidths": 1}
    for points, style in (
        (plain, {"color": colors.muted, "s": 16, "label": "trial"}),
        (unsure, {**circle, "label": "disturbed by others"}),
        (finals, {"color": colors.good, "s": 30, "marker": "D", "label": "final check"}),
    ):
        if points:
            axes.scatter(*zip(*points, strict=True), zorder=3, **style)
    if failed:
        bottom = axes.get_xaxis_transform()
        axes.scatter(failed, [0.03] * len(failed), marker="x", s=22, color=colors.bad, transform=bottom, label="failed")
    if start_ms:
        axes.axhline(start_ms, color=colors.bad, linestyle="--", linewidth=1, label="as shipped")
    _mark_turns(axes, [trial.origin for _, trial in trials], colors)
    shown = [ms for _, ms, _ in timed] + ([start_ms] if start_ms else [])
    axes.set_yscale("log")
    axes.set_ylim(min(shown) / 1.35, max(shown) * 1.25)
    axes.set_xlim(0.4, len(trials) + 0.6)
    axes.xaxis.get_major_locator().set_params(integer=True)
    _plain_ticks(axes.yaxis)
    axes.legend(loc="upper right", frameon=False, fontsize=9, labelcolor=colors.muted, handlelength=1.4)
    return figure


def roofline(history: History) -> str | None:
    """Start and best under the measured ceilings; None if the work is unknown, not arithmetic, or was not timed."""
    profile, start, best = history.profile, history.start, history.best
    if profile is None or not profile.flops or start is None or not start.latency_ms:
        return None
    figure, axes = _axes("operations per byte that must move", "GFLOP/s", PAGE)
    x = profile.intensity
    points = [("start", start.latency_ms, PAGE.muted)]
    if best is not None and best.latency_ms and best.latency_ms != start.latency_ms:
        points.append(("best", best.latency_ms, PAGE.good))
    rates = [profile.flops / ms / 1e6 for _, ms, _ in points]
    _draw_ceilings(axes, profile, rates)
    between = [turn.metrics.latency_ms for turn in history.turns if turn.metrics and turn.metrics.latency_ms]
    axes.scatter([x] * len(between), [profile.flops / ms / 1e6 for ms in between], s=12, color=PAGE.muted, zorder=3)
    roof = profile.flops / profile.floor_ms / 1e6
    axes.plot([x, x], [min(rates), roof], color=PAGE.muted, linewidth=1, linestyle=(0, (2, 3)))
    for (name, ms, color), rate, side in zip(points, rates, (-1, 1), strict=False):
        axes.scatter([x], [rate], s=46, color=color, zorder=4)
        axes.annotate(
            f"{name} {ms:.3g} ms", (x, rate), (side * 9, 0), textcoords="offset points", color=PAGE.ink, fontsize=10,
            va="center", ha="left" if side > 0 else "right",
        )  # fmt: skip
    axes.scatter([x], [roof], s=60, marker="_", color=PAGE.ink, zorder=4)
    axes.annotate(
        f"floor {profile.floor_ms:.3g} ms", (x, roof), (9, -7), textcoords="offset points", color=PAGE.muted,
        fontsize=10, ha="left", va="top",
    )  # fmt: skip
    return _svg(figure, "roofline")


def _draw_ceilings(axes: Any, profile: Profile, rates: list[float]) -> None:
    bandwidth, peak, x = profile.ceilings.copy_gb_s, profile.matrix_gflop_s, profile.intensity
    ridge = peak / bandwidth
    left, right = min(x, ridge) / 20, max(x, ridge) * 20
    axes.plot([left, ridge, right], [left * bandwidth, peak, peak], color=PAGE.accent)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(min(*rates, left * bandwidth) / 1.5, max(peak, *rates) * 3)
    axes.annotate(
        f"matrix product {peak:.4g} GFLOP/s", (right, peak), (-4, 5), textcoords="offset points", color=PAGE.accent,
        fontsize=10, ha="right",
    )  # fmt: skip
    axes.annotate(
        f"copy {bandwidth:.4g} GB/s", (left, left * bandwidth), (6, -2), textcoords="offset points", color=PAGE.accent,
        fontsize=10, va="top",
    )  # fmt: skip
    _plain_ticks(axes.xaxis)
    _plain_ticks(axes.yaxis)


def _mark_turns(axes: Any, origins: list[str], colors: Palette) -> None:
    """Draw a thin line and the turn's number at its first trial."""
    seen: set[str] = set()
    for i, origin in enumerate(origins, start=1):
        found = re.match(r"turn (\d+)", origin)
        if found and found[1] not in seen:
            seen.add(found[1])
            axes.axvline(i - 0.5, color=colors.line, linewidth=1, zorder=0)
            axes.annotate(
                f"turn {found[1]}" if len(seen) == 1 else found[1], (i - 0.5, 1), (3, 3), color=colors.muted,
                fontsize=9, xycoords=axes.get_xaxis_transform(), textcoords="offset points",
            )  # fmt: skip


def _axes(x: str, y: str, colors: Palette) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained", facecolor="none")
    axes = figure.add_subplot(facecolor="none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(colors.line)
    axes.grid(color=colors.line, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", color=colors.line, labelcolor=colors.muted, labelsize=10)
    axes.set_xlabel(x, color=colors.muted, fontsize=10)
    axes.set_ylabel(y, color=colors.muted, fontsize=10)
    return figure, axes


def _plain_ticks(axis: Any) -> None:
    """Label ticks with plain numbers, at ones, twos and fives if the range is short."""
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
    for variable, color in asdict(PAGE).items():
        svg = svg.replace(color, f"var(--{variable})")
    # Its one style rule names every element: here that would be the page's too, which has the rule for its plots.
    svg = re.sub(r"<defs>\s*<style.*?</defs>", "", svg, count=1, flags=re.DOTALL)
    # Namespaces belong to XML, and in HTML only look like addresses; the width is the page's to choose.
    svg = re.sub(r'(?<=\s)(xmlns(:\w+)?|width|height)="[^"#]*"', "", svg[: svg.index(">")]) + svg[svg.index(">") :]
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
