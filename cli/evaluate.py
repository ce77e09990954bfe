"""`kernelwright evaluate` on the terminal: one kernel, all of a KernelBench run folder, or a Solution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..api.evaluate import FolderResult, run_evaluate, run_evaluate_folder
from ..api.evaluate_solution import SolutionResult, WorkloadVerdict, is_solution, run_evaluate_solution
from ..api.options.evaluate import EvaluateOptions
from ..api.verdicts import ProtocolVerdicts
from ..core import Evaluation, Status
from ..core.text import gigabytes
from ..evaluators.kernelbench.result import THRESHOLDS, fast_p
from ..runtime.words import beside_reference, busy, workload_lines
from .parameters import chosen
from .render import Display, Screen, status_text


def show_evaluate(given: Mapping[str, Any], display: Display) -> int:
    """Evaluate; 0 when every kernel is correct by every protocol that was asked for."""
    options = chosen(given, EvaluateOptions)
    screen = Screen(display)
    if is_solution(options):
        return _show_solution(options, screen)
    if options.kernel is None:
        return _show_folder(run_evaluate_folder(options, screen.emit), screen)
    verdicts = run_evaluate(options, screen.emit)
    if display.json:
        display.print_json(verdicts.record())
        return 0 if verdicts.correct else 1
    if verdicts.evaluation is not None:
        screen.print(describe_evaluation(verdicts, verdicts.evaluation))
    if verdicts.result is not None:
        screen.print(comparison_table([verdicts]))
        _explain(verdicts, screen)
    return 0 if verdicts.correct else 1


def describe_evaluation(verdicts: ProtocolVerdicts, evaluation: Evaluation) -> str:
    """One evaluation in a few words, with rich markup."""
    text = f"[bold]{escape(verdicts.problem)}[/] ({verdicts.workload}): {status_text(evaluation.status)}"
    if evaluation.measurement and evaluation.reference and evaluation.speedup:
        text += (
            f", {evaluation.measurement.median_ms:.3g} ms against {evaluation.reference.median_ms:.3g} ms, "
            f"{escape(str(evaluation.speedup))} against the reference"
        )
        text += ", which computes as PyTorch does by default" if evaluation.default_is_reference else ""
        text += escape(beside_reference(evaluation))
    if evaluation.host_us is not None:
        text += f", the host's work {evaluation.host_us:.3g} us of a call"
    if evaluation.peak_memory_bytes:
        text += f", {gigabytes(evaluation.peak_memory_bytes)} of device memory"
    if evaluation.correctness:
        checked = evaluation.correctness
        text += f", largest error {checked.own_error:.2g} in {checked.checks} check{'s' if checked.checks != 1 else ''}"
        if checked.trivial_outputs:
            names = " and ".join(checked.trivial_outputs)
            text += f"\n[yellow]warning:[/] {names} would have passed too, so this proves little"
        for remark in filter(None, (checked.less_exact, checked.special_values, checked.other_strides)):
            text += f"\nremark: {escape(remark)}"
        if checked.deterministic is False:
            text += "\n[yellow]warning:[/] two calls on the same inputs returned different results"
    if evaluation.shape_specialised and evaluation.second_workload:
        sizes = ", ".join(f"{name}={value}" for name, value in evaluation.second_workload.sizes.items())
        text += f"\n[yellow]warning:[/] shape-specialised: {evaluation.second_workload.status} at {escape(sizes)}"
    if evaluation.replay is not None and evaluation.replay.accepted:
        text += f"\n[yellow]warning:[/] accepted, though {escape(evaluation.replay.why_not)}"
    if evaluation.contention is not None:
        text += f"\n[yellow]warning:[/] {busy(evaluation.contention)}"
    text += "".join(f"\n{escape(line)}" for line in workload_lines(evaluation.workloads, {}))
    reason = str(evaluation.rejection) if evaluation.rejection else evaluation.message
    return text + (f"\n{escape(reason)}" if reason else "")


def _show_folder(result: FolderResult, screen: Screen) -> int:
    if screen.display.json:
        screen.display.print_json(result.record())
    else:
        if result.verdicts:
            screen.print(comparison_table(result.verdicts))
        for verdicts in result.verdicts:
            _explain(verdicts, screen)
        if result.strict_speedups is None:
            screen.print(f"{describe_fast_p(result.speedups)} (by kernelbench alone, which proves no speedup)")
        else:
            screen.print(f"{describe_fast_p(result.strict_speedups)} (strict)")
            screen.print(f"{describe_fast_p(result.speedups)} (kernelbench)")
    disturbed = [
        verdict
        for verdict in result.verdicts
        if verdict.evaluation is not None and verdict.evaluation.contention is not None
    ]
    if disturbed:
        names = ", ".join(item.problem for item in disturbed)
        screen.warn(f"others disturbed {names}: the strict speedup is not counted; the same command measures it again")
    return 0 if result.correct else 1


def _explain(verdicts: ProtocolVerdicts, screen: Screen) -> None:
    """Lines beneath the table."""
    if verdicts.result is not None and verdicts.result.reason:
        screen.print(f"{escape(verdicts.problem)}, kernelbench: {escape(verdicts.result.reason)}")
    if verdicts.refusal:
        screen.print(f"{escape(verdicts.problem)}, strict: {escape(verdicts.refusal)}")
    if verdicts.remark:
        screen.print(f"{escape(verdicts.problem)}: {escape(verdicts.remark)}")


def comparison_table(judged: Sequence[ProtocolVerdicts]) -> Table:
    """One row per kernel and protocol."""
    table = Table(title_justify="left")
    for column in ("problem", "protocol", "verdict", "ms", "reference ms", "speedup"):
        table.add_column(column, justify="right" if "ms" in column or column == "speedup" else "left")
    for item in judged:
        for protocol, verdict, right, *metrics in _rows(item):
            color = "green" if right else "yellow" if verdict == Status.UNPROVEN else "red"
            shown = ["" if figure is None else f"{figure:.3g}" for figure in metrics]
            speedup = f"{shown[2]}x" if shown[2] else ""
            table.add_row(escape(item.problem), protocol, f"[{color}]{escape(verdict)}[/]", shown[0], shown[1], speedup)
    return table


def _rows(one: ProtocolVerdicts) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    if one.refusal:
        rows.append(("strict", "no kernel", False, None, None, None))
    if (strict := one.evaluation) is not None:
        verdict = f"rejected: {strict.rejection.rule}" if strict.rejection else strict.status.value
        reference = strict.reference.median_ms if strict.reference else None
        speedup = strict.speedup.ratio if strict.speedup else None
        rows.append(("strict", verdict, strict.ok, strict.latency_ms, reference, speedup))
    if (other := one.result) is not None:
        verdict = "correct" if other.correctness else "incorrect" if other.compiled else "not compiled"
        rows.append(("kernelbench", verdict, other.correctness, other.runtime, other.ref_runtime, other.speedup))
    return rows


def describe_fast_p(speedups: Mapping[int, float | None]) -> str:
    """'fast_p over 12 problems: 0: 1.00, 0.5: 0.92, ...'."""
    parts = ", ".join(f"{p:g}: {fast_p(list(speedups.values()), p):.2f}" for p in THRESHOLDS)
    return f"fast_p over {len(speedups)} problem{'s' if len(speedups) != 1 else ''}: {parts}"


def _show_solution(options: EvaluateOptions, screen: Screen) -> int:
    """Evaluate; 0 when the Solution is correct on every Workload."""
    result = run_evaluate_solution(options, screen.emit)
    if screen.display.json:
        screen.display.print_json(result.record())
    else:
        _show_workloads(result, screen)
    return 0 if result.correct else 1


def _show_workloads(result: SolutionResult, screen: Screen) -> None:
    table = Table(title=escape(f"{result.solution} for {result.definition}"), title_justify="left")
    for column in ("workload", "verdict", "ms", "reference ms", "speedup"):
        table.add_column(column, justify="right" if "ms" in column or column == "speedup" else "left")
    for row in result.rows:
        table.add_row(escape(row.workload), *_cells(row))
    screen.print(table)
    for row in result.rows:
        found = row.evaluation
        if (reason := row.error if found is None else str(found.rejection or found.message)) != "":
            screen.print(f"{escape(row.workload)}: {escape(reason)}")
    written = [row.traced for row in result.rows if row.traced is not None]
    if written:
        screen.print(f"traces: {len(written)} in {escape(str(written[0]))}")


def _cells(row: WorkloadVerdict) -> tuple[str, ...]:
    found = row.evaluation
    if found is None:
        return ("[red]reference failed[/]", "", "", "")
    verdict = status_text(found.status)
    if found.speedup is None or found.reference is None:
        return (verdict, "", "", "")
    return (verdict, f"{found.latency_ms:.4g}", f"{found.reference.median_ms:.4g}", f"{found.speedup.ratio:.3f}x")
