"""Where text goes, and how results are put into words and tables."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..api.observers import Observer
from ..core import Evaluation, Metrics, Value
from ..core.baselines import COMPILE, STRICT, against_text
from ..core.text import gigabytes
from .console import console
from .parameters import as_flags, option_names

if TYPE_CHECKING:
    from ..api.list_slow import Listing
    from ..api.optimize_result import OptimizeResult
    from ..api.verdicts import ProtocolVerdicts


@dataclass(frozen=True)
class Display:
    """How much a command shows, and where: with `json` standard output is for the object alone."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    to_stderr: bool = False
    """Whether text goes to standard error for another reason, such as a list on standard output."""

    def print_json(self, found: Mapping[str, Any]) -> None:
        """Print the object of --json."""
        print(json.dumps(found))


class Screen(Observer):
    """Where text goes. Other observers of commands derive from it."""

    def __init__(self, display: Display) -> None:
        self.display = display
        self.console = console(stderr=display.json or display.to_stderr)
        self.errors = console(stderr=True)

    @property
    def live(self) -> bool:
        """Whether there is a terminal to draw on."""
        return self.console.is_terminal and not self.display.quiet

    def print(self, *parts: Any) -> None:
        """Print texts with markup, or tables."""
        self.console.print(*parts)

    def note(self, text: str) -> None:
        """A remark."""
        if not self.display.quiet:
            self.console.print(escape(as_flags(text, option_names())))

    def replying(self, lane: str, characters: int) -> None:
        """The length of a model's reply so far, on one line that is overwritten."""
        if not self.live:
            return
        self.console.print(f"[dim]  ({lane}) the model has written {characters} characters[/]", end="\r")

    def warn(self, text: str) -> None:
        """A warning, on standard error."""
        self.errors.print(f"[yellow]warning:[/] {escape(as_flags(text, option_names()))}")

    def heading(self, text: str) -> None:
        """A heading between kernels of a batch."""
        if not self.display.quiet:
            self.console.rule(escape(text)) if self.live else self.console.print(escape(text))

    @contextlib.contextmanager
    def working(self, text: str) -> Iterator[None]:
        """A spinner while something runs; one line where there is no terminal."""
        if self.live:
            with self.console.status(escape(text)):
                yield
        else:
            self.note(text)
            yield

    @contextlib.contextmanager
    def progress(self, text: str, total: int) -> Iterator[Callable[[str], None]]:
        """A progress bar; yields what to call after each step. Lines on standard error without a terminal."""
        if not self.live:
            done = 0

            def count(name: str) -> None:
                nonlocal done
                done += 1
                self.note(f"{text} {done}/{total}: {name}")

            yield count
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(text, total=total)

            def advance(name: str) -> None:
                bar.update(task, advance=1, description=f"{text} {name}")

            yield advance

    def slow_table(self, listing: Listing, threshold: float) -> None:
        """Kernels below the threshold, on a terminal."""
        title = f"{len(listing.slow)} of {listing.measured} kernels below {threshold:g}x"
        table = Table(title=title, title_justify="left")
        for column in ("kernel", "speedup", "", "latency ms", "reference ms", "against defaults", "problem"):
            numeric = "ms" in column or column in ("speedup", "against defaults")
            table.add_column(column, justify="right" if numeric else "left")
        colors = {"SLOW": "red", "MODERATE": "yellow", "GOOD": "green"}
        for row in listing.slow:
            category = f"[{colors[row.category]}]{row.category}[/]"
            mark = "" if row.contention is None else " (disturbed)"
            default = "" if row.speedup_default is None else f"{row.speedup_default:.3f}x"
            times = (f"{row.latency_ms:.3f}", f"{row.reference_ms:.3f}", default)
            table.add_row(row.kernel, f"{row.speedup:.3f}x{mark}", category, *times, escape(row.problem))
        console().print(table)

    def batch_table(self, summaries: Sequence[Mapping[str, Any]]) -> None:
        """One row per kernel of a batch."""
        if self.display.quiet:
            return
        table = Table(title="batch", title_justify="left")
        for column in ("kernel", "start ms", "best ms", "faster", "speedup", "target", "result"):
            table.add_column(column, justify="right" if "ms" in column or column == "faster" else "left")
        for summary in summaries:
            table.add_row(summary["problem"], *_batch_row(summary))
        self.console.print(table)

    def finished(self, result: OptimizeResult) -> None:
        """The result of a run."""
        outcome = result.outcome
        if not outcome.verified or outcome.best.speedup is None or outcome.start.latency_ms is None:
            self.errors.print(f"[red]failed:[/] {escape(result.job.problem.id)}: {_shown(outcome.stopped)}")
            if outcome.best.log and self.display.verbose:
                self.errors.print(escape(outcome.best.log))
            return
        latency = outcome.best.latency_ms or 0.0
        mark = "[green]reached[/]" if result.reached else "[yellow]not reached[/]"
        against = against_text(result.job.against, result.job.precision)
        self.console.print(
            f"[bold]{escape(result.job.problem.id)}[/]: "
            f"{outcome.start.latency_ms:.3f} ms -> [bold]{latency:.3f} ms[/], "
            f"{outcome.start.latency_ms / latency:.2f} times as fast as the start; "
            f"[bold]{escape(str(outcome.best.speedup))}[/] against the reference{beside_reference(outcome.best)}"
        )
        if (compiled := compile_line(result)) is not None:
            self.console.print(compiled)
        for line in workload_lines(outcome.best.workloads, outcome.start.workloads):
            self.console.print(line)
        wanted = "" if against == "the reference" else f" against {against}"
        self.console.print(f"target {result.target:g}x{wanted} {mark}; stopped: {_shown(outcome.stopped)}")
        if outcome.best.contention is not None:
            self.warn(busy(outcome.best.contention))
        files = ("kernel", result.kernel), ("solution", result.solution), ("patch", result.patch)
        for what, path in (*files, ("history", result.history)):
            if path is not None:
                self.console.print(f"{what}: {escape(str(path))}")


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


def workload_lines(rows: Mapping[str, Metrics], start: Mapping[str, Metrics]) -> list[str]:
    """Return a line for each workload of a kernel that was judged at several, beside the start's where it has them."""
    lines = []
    for name, row in rows.items():
        before = start[name].latency_ms if name in start else None
        text = f"  {escape(name)}: {row.status}"
        if row.latency_ms is not None:
            text = f"  {escape(name)}: {f'{before:.4g} ms -> ' if before else ''}{row.latency_ms:.4g} ms"
            text += f", {before / row.latency_ms:.2f} times as fast" if before else ""
            text += f"; {row.speedup:.3f}x against the reference" if row.speedup else ""
        lines.append(text)
    return lines


def beside_reference(evaluation: Evaluation) -> str:
    """Return ', 1.2x [1.1, 1.3] against PyTorch's defaults (0.893 ms)' and the like, for all other baselines."""
    text = ""
    for name, baseline in evaluation.baselines.items():
        against = f"{against_text(name, evaluation.precision)} ({baseline.median_ms:.3g} ms)"
        text += f", {escape(str(evaluation.speedup_against(name)))} against {escape(against)}"
    return text


def _batch_row(summary: Mapping[str, Any]) -> tuple[str, ...]:
    if not summary["verified"] or not summary.get("best", {}).get("speedup"):
        return ("", "", "", "", "", f"[red]{escape(str(summary.get('error') or summary.get('stopped')))}[/]")
    start, best = summary["start"]["latency_ms"], summary["best"]["latency_ms"]
    return (
        f"{start:.3f}",
        f"{best:.3f}",
        f"{start / best:.2f}x",
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


def busy(cores: float) -> str:
    """Return the warning for a measurement beside other processes."""
    return (
        f"other processes used {cores:.1f} cores while this was timed, so its speedup is unreliable; "
        "run it again on a quiet machine"
    )


def describe_config(config: Mapping[str, Value]) -> str:
    """'BLOCK_M=32, THREADS=2'; long texts such as compiler flags are cut."""
    parts = []
    for name, value in config.items():
        text = str(value)
        parts.append(f"{name}={text if len(text) <= 24 else text[:10] + '...' + text[-11:]}")
    return ", ".join(parts) or "as it stands"


def describe_evaluation(verdicts: ProtocolVerdicts, evaluation: Evaluation) -> str:
    """One evaluation in a few words, with rich markup."""
    color = "green" if evaluation.ok else "red"
    text = f"[bold]{escape(verdicts.problem)}[/] ({verdicts.workload}): [{color}]{evaluation.status}[/]"
    if evaluation.measurement and evaluation.reference and evaluation.speedup:
        text += (
            f", {evaluation.measurement.median_ms:.3g} ms against {evaluation.reference.median_ms:.3g} ms, "
            f"{escape(str(evaluation.speedup))} against the reference"
        )
        text += ", which computes as PyTorch does by default" if evaluation.default_is_reference else ""
        text += beside_reference(evaluation)
    if evaluation.peak_memory_bytes:
        text += f", {gigabytes(evaluation.peak_memory_bytes)} of device memory"
    if evaluation.correctness:
        checked = evaluation.correctness
        text += (
            f", largest error {checked.max_abs_error:.2g} in {checked.checks} check{'s' if checked.checks != 1 else ''}"
        )
        if checked.trivial_outputs:
            names = " and ".join(checked.trivial_outputs)
            text += f"\n[yellow]warning:[/] {names} would have passed too, so this proves little"
        for remark in filter(None, (checked.special_values, checked.other_strides)):
            text += f"\nremark: {escape(remark)}"
        if checked.deterministic is False:
            text += "\n[yellow]warning:[/] two calls on the same inputs returned different results"
    if evaluation.shape_specialised and evaluation.second_workload:
        sizes = ", ".join(f"{name}={value}" for name, value in evaluation.second_workload.sizes.items())
        text += f"\n[yellow]warning:[/] shape-specialised: {evaluation.second_workload.status} at {escape(sizes)}"
    if evaluation.replay is not None and not evaluation.replay.replayed:
        text += f"\n[yellow]warning:[/] replayed: no; {escape(evaluation.replay.reason)}"
    if evaluation.contention is not None:
        text += f"\n[yellow]warning:[/] {busy(evaluation.contention)}"
    text += "".join(f"\n{line}" for line in workload_lines(evaluation.workloads, {}))
    reason = str(evaluation.rejection) if evaluation.rejection else evaluation.message
    return text + (f"\n{escape(reason)}" if reason else "")


def _shown(text: str) -> str:
    """A text of another layer, with the options that it names as flags."""
    return escape(as_flags(text, option_names()))
