"""Figures of evaluations in words, as results of several commands say them."""

from __future__ import annotations

from collections.abc import Mapping

from ..core import Evaluation, Metrics
from ..core.baselines import REMEMBERED, against_text


def workload_lines(rows: Mapping[str, Metrics], start: Mapping[str, Metrics]) -> list[str]:
    """Return a line for each workload of a kernel that was judged at several, beside the start's where it has them."""
    lines = []
    for name, row in rows.items():
        before = start[name].latency_ms if name in start else None
        text = f"  {name}: {row.status}"
        if row.latency_ms is not None:
            text = f"  {name}: {f'{before:.4g} ms -> ' if before else ''}{row.latency_ms:.4g} ms"
            text += f", {before / row.latency_ms:.2f} times as fast" if before else ""
            text += f"; {row.speedup:.3f}x against the reference" if row.speedup else ""
        lines.append(text)
    return lines


def beside_reference(evaluation: Evaluation) -> str:
    """Return ', 1.2x [1.1, 1.3] against PyTorch's defaults (0.893 ms)' and the like, for all other baselines; and what
    packing the weights took.
    """
    text = ""
    for name, baseline in evaluation.baselines.items():
        remembered = ", by an earlier run's ratio" if baseline.method.endswith(REMEMBERED) else ""
        against = f"{against_text(name, evaluation.precision)} ({baseline.median_ms:.3g} ms{remembered})"
        text += f", {evaluation.speedup_against(name)} against {against}"
    if evaluation.packing is not None:
        text += f", packing {evaluation.packing.median_ms:.2g} ms once"
    return text


def busy(cores: float) -> str:
    """Return the warning for a measurement beside other processes."""
    return (
        f"other processes used {cores:.1f} cores while this was timed, so its speedup is unreliable; "
        "run it again on a quiet machine"
    )


def duration(seconds: float) -> str:
    """'40 s' or '3 min'."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
