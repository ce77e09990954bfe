"""`kernelwright evaluate` for a Solution: a row per Workload."""

from __future__ import annotations

import json
import sys

from rich.markup import escape
from rich.table import Table

from ..api.evaluate_solution import SolutionResult, WorkloadVerdict, run_evaluate_solution
from ..api.options.evaluate import EvaluateOptions
from .render import Screen


def show_evaluate_solution(options: EvaluateOptions, screen: Screen) -> int:
    """Evaluate; 0 when the Solution is correct on every Workload."""
    result = run_evaluate_solution(options, screen)
    if screen.display.json:
        print(json.dumps(result.record()), file=sys.stdout)
    else:
        _show(result, screen)
    return 0 if result.correct else 1


def _show(result: SolutionResult, screen: Screen) -> None:
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
    verdict = f"[{'green' if found.ok else 'red'}]{found.status.value}[/]"
    if found.speedup is None or found.reference is None:
        return (verdict, "", "", "")
    return (verdict, f"{found.latency_ms:.4g}", f"{found.reference.median_ms:.4g}", f"{found.speedup.ratio:.3f}x")
