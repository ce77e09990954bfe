"""`tune mlir` on the terminal, in the sections of the auto-scheduler whose config file it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..api.mlir import TRANSFORMING, run_mlir
from ..api.mlir_files import TrialReport, duration
from ..api.mlir_result import MlirResult, Transformed
from ..api.options.mlir import MlirOptions
from ..core.events import Event, FinalsStarted, PartDone, PartStarted, Step
from .guard import NOTHING_FASTER
from .parameters import chosen
from .render import Display, Screen, describe_config

DOUBLE, SINGLE, STARS = "=" * 58, "-" * 64, "*" * 56


def show_mlir(given: Mapping[str, Any], display: Display) -> int:
    """Tune and show the result; 0 when a schedule is faster, or nothing was to be run, else `NOTHING_FASTER`."""
    screen = MlirDisplay(display)
    result = run_mlir(chosen(given, MlirOptions), screen.emit)
    if not result.dry:
        show_result(result, screen)
    if display.json:
        display.print_json(result.summary())
    if result.dry or result.faster:
        return 0
    return NOTHING_FASTER if result.best else 1


class MlirDisplay(Screen):
    """The two steps, and a block of lines per trial."""

    def emit(self, event: Event) -> None:
        """Show an event of the auto-scheduler's."""
        match event:
            case Step(text=text, over=over) if text == TRANSFORMING:
                if not over:
                    self.note(f"Step 1: Generate search space and transform the original IR\n{DOUBLE}\n{text} ......")
            case PartDone(result=Transformed() as result):
                self._transformed(result)
            case PartStarted() if event.total > 1:
                self.note(f"[{event.number}/{event.total}] {event.name}")
            case PartDone(result=TrialReport() as result):
                self._trial(result)
            case FinalsStarted():
                finalists = "combinations of finalists and the default module"
                those = finalists if event.combined else "finalists and the module as it was"
                self.note(f"measuring {len(event.configs) - 1} {those}, interleaved")
            case _:
                super().emit(event)

    def _transformed(self, result: Transformed) -> None:
        """What was found, and the head of the second step."""
        for schedule in result.scheduling.schedules:
            operation = schedule.operation
            self.note(f"{operation.name}: {operation.shape} {operation.result.element}, {schedule.space.cardinality}")
        self.note(f"{duration(result.seconds)}\n{DOUBLE}\n")
        self.note(f"Step 2: Search the space to get the best performance config\n{DOUBLE}")

    def _trial(self, report: TrialReport) -> None:
        """The block of a trial."""
        evaluation = report.evaluation
        runtime = f"{evaluation.latency_ms:.4f}" if evaluation.latency_ms else ""
        beside = f"{evaluation.speedup} times IREE's default" if evaluation.speedup else evaluation.message
        lines = [
            f"[Compiling (profile)] {report.command}",
            SINGLE,
            f"Dispatch      : {report.operation}_{report.configuration}",
            "Provider      : IREE Codegen",
            f"OpKind        : {report.kind}",
            f"Operation     : {report.operation}",
            f"Configuration : {report.configuration}",
            f"Verification  : {report.verification}",
            f"Runtime(ms)   : {runtime}",
            f"GFLOPs        : {f'{report.gflops:.2f}' if report.gflops else ''}",
            f"Status        : {evaluation.status}{f', {beside}' if beside else ''}",
            SINGLE,
        ]
        self.note("\n".join(lines))


def show_result(result: MlirResult, screen: Screen) -> None:
    """The winner, the table and the files; a failure on standard error."""
    best = result.best
    if best is None:
        first = next((e.message for item in result.found for e in item.evaluations if e.message), "nothing was tried")
        screen.errors.print(
            f"[red]failed:[/] none of {result.trials} configs is correct, first: {escape(first)}; all are in "
            f"{escape(str(result.folder))}; widen the space"
        )
        return
    seconds = sum(item.progress.seconds for item in result.found)
    screen.console.print(f"\n{STARS}\n[bold]\\[Performance][/]: The best is {escape(describe_config(best.config))}")
    screen.console.print(f"with gflops {result.gflops(best):.2f}\n\n{duration(seconds)}\n{STARS}\n{DOUBLE}")
    screen.console.print(_table(result))
    if best.speedup is not None and best.speedup.high < 1:
        screen.warn("it is slower than IREE's default: keep the module as it was")
    elif not result.faster:
        screen.warn("it is not measurably faster than IREE's default")
    if result.spec_fault:
        screen.warn(f"built with the tuning spec, the module as it was fails: {result.spec_fault}")
    elif result.same_code is False:
        screen.warn("built with the tuning spec, the module as it was is correct, but not the code that was measured")
    if result.not_in_spec:
        screen.warn(f"a tuning spec cannot carry the schedules of {', '.join(result.not_in_spec)}; use best.mlir")
    files = ("module", result.module), ("tuning spec", result.spec), ("folder", result.folder)
    for what, path in files:
        if path is not None:
            screen.console.print(f"{what}: {escape(str(path))}", soft_wrap=True)


def _table(result: MlirResult) -> Table:
    """The auto-scheduler's table: its speed over IREE's own."""
    best, problem = result.best, result.scheduling.problem
    table = Table(box=None, pad_edge=False)
    for column in ("operations", "ms (tuned/IREE)", "GFLOPS (tuned/IREE)", "times as fast"):
        table.add_column(column)
    assert best is not None and best.reference is not None
    shapes = ", ".join(f"{operation.kind} {operation.shape}" for operation in problem.operations)
    times = f"{best.latency_ms:.4f}/{best.reference.median_ms:.4f}"
    rates = f"{result.gflops(best):.1f}/{result.default_gflops():.1f}"
    table.add_row(shapes, times, rates, str(best.speedup))
    return table
