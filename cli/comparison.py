"""The two protocols side by side: what each says of a kernel, and why they differ where they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..agent.turn import summary
from ..core import Evaluation, Status
from ..evaluators.kernelbench.result import THRESHOLDS, KernelBenchResult, fast_p

FAR_APART = 1.1
"""Speedups that differ by no more are the same to a reader."""
_WHY_ACCEPTED = {
    Status.REJECTED: "it looks at results only",
    Status.WRONG_DTYPE: "it does not compare dtypes",
    Status.WRONG_VALUE: "it tries the problem's own inputs only, from seeds that are always the same",
}


@dataclass(frozen=True)
class ProtocolVerdicts:
    """What the protocols that were asked for say of one kernel."""

    problem: str
    workload: str
    evaluation: Evaluation | None = None
    refusal: str = ""
    """Why there is no evaluation: the file is no kernel."""
    result: KernelBenchResult | None = None

    @property
    def right(self) -> bool:
        """Whether every protocol that was asked for accepts it."""
        strict = not self.refusal and (self.evaluation is None or self.evaluation.ok)
        return strict and (self.result is None or self.result.correctness)

    @property
    def remark(self) -> str:
        """Why the protocols differ; '' where they agree, or only one was asked."""
        if self.result is None or self.evaluation is None:
            return ""
        strict, other = self.evaluation, self.result
        if strict.ok and other.correctness:
            return _speeds_differ(strict, other)
        if other.correctness:
            said = strict.rejection.rule if strict.rejection else strict.status.value.replace("_", " ")
            why = _WHY_ACCEPTED.get(strict.status, "it ran through there")
            return f"strict refuses it ({said}), kernelbench accepts it: {why}"
        if strict.ok:
            why = ""
            if other.metadata.get("correctness_issue") == "Output mismatch":
                why = ": it copies no weights, so both constructors must draw the same ones after the same seed"
            return f"strict accepts it, kernelbench does not ({other.reason}){why}"
        return ""

    def record(self) -> dict[str, Any]:
        """For --json."""
        found: dict[str, Any] = {"problem": self.problem, "workload": self.workload}
        if self.evaluation is not None:
            found |= {"environment": self.evaluation.environment, **summary(self.evaluation)}
        if self.refusal:
            found["error"] = self.refusal
        if self.result is not None:
            found["kernelbench"] = {**self.result.model_dump(mode="json"), "speedup": self.result.speedup}
        if self.remark:
            found["remark"] = self.remark
        return found


def _speeds_differ(strict: Evaluation, other: KernelBenchResult) -> str:
    ours, theirs = strict.speedup, other.speedup
    if ours is None or theirs is None or 1 / FAR_APART <= ours.ratio / theirs <= FAR_APART:
        return ""
    both = f"{ours.ratio:.3g}x or {theirs:.3g}x"
    if strict.contention is not None:
        return f"{both}: other processes disturbed the timing"
    tf32 = ", and TF32 where torch has it on" if "tf32" in strict.environment else ""
    return f"{both}: strict compares medians, taken in turn; kernelbench means, with gradients on{tf32}"


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
