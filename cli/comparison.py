"""The two protocols side by side, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..api.verdicts import ProtocolVerdicts
from ..evaluators.kernelbench.result import THRESHOLDS, fast_p


def comparison_table(judged: Sequence[ProtocolVerdicts]) -> Table:
    """One row per kernel and protocol."""
    table = Table(title_justify="left")
    for column in ("problem", "protocol", "verdict", "ms", "reference ms", "speedup"):
        table.add_column(column, justify="right" if "ms" in column or column == "speedup" else "left")
    for one in judged:
        for protocol, verdict, right, *metrics in _rows(one):
            color = "green" if right else "red"
            shown = ["" if figure is None else f"{figure:.3g}" for figure in metrics]
            speedup = f"{shown[2]}x" if shown[2] else ""
            table.add_row(escape(one.problem), protocol, f"[{color}]{escape(verdict)}[/]", shown[0], shown[1], speedup)
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
