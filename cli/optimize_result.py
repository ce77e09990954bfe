"""What runs of `optimize` came to, and the list of slow kernels, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from ..api.list_slow import Listing
from ..api.list_slow_problems import SlowProblem
from ..core import Metrics, Speedup
from ..core.baselines import COMPILE, STRICT, against_text
from ..runtime.words import beside_reference, busy, workload_lines
from .render import Screen, shown

if TYPE_CHECKING:
    from ..api.optimize_result import OptimizeResult


def show_result(result: OptimizeResult, screen: Screen) -> None:
    """The result of a run."""
    outcome = result.outcome
    if not outcome.verified or outcome.best.speedup is None or outcome.start.latency_ms is None:
        screen.errors.print(f"[red]failed:[/] {escape(result.job.problem.id)}: {shown(outcome.stopped)}")
        if outcome.best.log and screen.display.verbose:
            screen.errors.print(escape(outcome.best.log))
        return
    latency, gain = outcome.best.latency_ms or 0.0, outcome.gain
    mark = "[green]reached[/]" if result.reached else "[yellow]not reached[/]"
    against = against_text(result.job.against, result.job.precision)
    if outcome.faster:
        times = f"[bold]{latency:.3f} ms[/]"
        if gain is not None:
            times = f"{outcome.start.latency_ms:.3f} ms -> {times}, {escape(times_text(gain))} as the start"
    else:
        times = f"[bold]nothing faster was found[/] than the start's {latency:.3f} ms"
    screen.console.print(
        f"[bold]{escape(result.job.problem.id)}[/]: {times}; "
        f"[bold]{escape(str(outcome.best.speedup))}[/] against the reference{escape(beside_reference(outcome.best))}"
    )
    if (compiled := compile_line(result)) is not None:
        screen.console.print(compiled)
    if (remark := exactness_line(result)) is not None:
        screen.console.print(escape(remark))
    for line in workload_lines(outcome.best.workloads, outcome.start.workloads if outcome.faster and gain else {}):
        screen.console.print(escape(line))
    wanted = "" if against == "the reference" else f" against {against}"
    screen.console.print(f"target {result.target:g}x{wanted} {mark}; stopped: {shown(outcome.stopped)}")
    if outcome.best.contention is not None:
        screen.warn(busy(outcome.best.contention))
    files = ("kernel", result.kernel), ("solution", result.solution), ("patch", result.patch)
    for what, path in (*files, ("history", result.history)):
        if path is not None:
            screen.console.print(f"{what}: {escape(str(path))}")


def times_text(gain: Speedup) -> str:
    """'2.48 times as fast [2.41, 2.55]'."""
    return f"{gain.ratio:.2f} times as fast [{gain.low:.2f}, {gain.high:.2f}]"


def compile_line(result: OptimizeResult) -> str | None:
    """Return how a result stands to torch.compile, in words; None where that was not asked for."""
    best = result.outcome.best.speedup_against(COMPILE)
    if result.beside_compile is None:
        return None
    if best is None:
        return "torch.compile does not compile the reference, so there is nothing to compare with"
    told = {
        "faster": f"[green]{best.ratio:.2f} times as fast as torch.compile[/]",
        "as fast": f"as fast as torch.compile ({best.ratio:.2f}x)",
        "slower": f"[yellow]slower than torch.compile ({best.ratio:.2f}x)[/], which serves better here",
    }
    return told[result.beside_compile]


def exactness_line(result: OptimizeResult) -> str | None:
    """Return that the result computes in a lower precision than the reference, in words; None where it does not."""
    checked = result.outcome.best.correctness
    return f"remark: {checked.less_exact}" if checked is not None and checked.less_exact is not None else None


def batch_table(summaries: Sequence[Mapping[str, Any]]) -> Table:
    """One row per kernel of a batch."""
    table = Table(title="batch", title_justify="left")
    for column in ("kernel", "start ms", "best ms", "faster", "speedup", "target", "result"):
        table.add_column(column, justify="right" if "ms" in column or column == "faster" else "left")
    for summary in summaries:
        table.add_row(summary["problem"], *_batch_row(summary))
    return table


def _batch_row(summary: Mapping[str, Any]) -> tuple[str, ...]:
    if not summary["verified"] or not summary.get("best", {}).get("speedup"):
        return ("", "", "", "", "", f"[red]{escape(str(summary.get('error') or summary.get('stopped')))}[/]")
    start, best = summary["start"]["latency_ms"], summary["best"]["latency_ms"]
    return (
        f"{start:.3f}",
        f"{best:.3f}",
        f"{summary['gain']:.2f}x" if summary.get("gain") else "",
        _batch_speedup(summary),
        "[green]reached[/]" if summary["target_reached"] else "not reached",
        escape(summary["stopped"]),
    )


def _batch_speedup(summary: Mapping[str, Any]) -> str:
    """Return the speedup over the target's baseline; which one it is, where it is not the reference."""
    against, precision = summary.get("against", STRICT), summary.get("precision", "fp32")
    shown = Metrics.model_validate(summary["best"]).speedup_against(against)
    baseline = against_text(against, precision)
    return "" if shown is None else f"{shown:.3f}x" + ("" if baseline == "the reference" else f" ({baseline})")


def slow_table(listing: Listing, threshold: float) -> Table:
    """Kernels below the threshold, on a terminal."""
    disturbed = sum(row.contention is not None for row in listing.slow)
    title = f"{len(listing.slow) - disturbed} of {listing.measured} kernels below {threshold:g}x"
    title += f", {disturbed} disturbed" if disturbed else ""
    table = Table(title=title, title_justify="left")
    for column in ("kernel", "speedup", "", "latency ms", "reference ms", "against defaults", "problem"):
        numeric = "ms" in column or column in ("speedup", "against defaults")
        table.add_column(column, justify="right" if numeric else "left")
    colors = {"SLOW": "red", "MODERATE": "yellow", "GOOD": "green", "DISTURBED": "yellow"}
    for row in listing.slow:
        category = f"[{colors[row.category]}]{row.category}[/]"
        default = "" if row.speedup_default is None else f"{row.speedup_default:.3f}x"
        times = (f"{row.latency_ms:.3f}", f"{row.reference_ms:.3f}", default)
        table.add_row(row.kernel, f"{row.speedup:.3f}x", category, *times, escape(row.problem))
    return table


def problem_table(rows: Sequence[SlowProblem]) -> Table:
    """Problems without a kernel, on a terminal."""
    table = Table(title=f"{len(rows)} problems without a kernel, by headroom", title_justify="left")
    for column in ("problem", "headroom", "eager ms", "compiled ms", "floor ms", "name"):
        table.add_column(column, justify="left" if column in ("problem", "name") else "right")
    for row in rows:
        mark = "" if row.contention is None else " (disturbed)"
        compiled = "" if row.compile_ms is None else f"{row.compile_ms:.4g}"
        times = (f"{row.eager_ms:.4g}", compiled, f"{row.floor_ms:.3g}")
        table.add_row(escape(row.problem), f"{row.headroom:.1f}x{mark}", *times, escape(row.name))
    return table
