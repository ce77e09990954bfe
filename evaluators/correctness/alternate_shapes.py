"""Other sizes at which a kernel should be right too: a kernel for one shape is not what a problem asks for."""

from __future__ import annotations

from typing import Any

from ...core import DEFAULT_WORKLOAD, TorchProblem

_PREFERRED = ("tiny", "cpu")
"""Workloads that cost little."""
_BATCH = ("batch_size", "BATCH_SIZE", "batch", "B", "N", "M")
"""Constants that a file without workloads is likely to have for an extent that may be any number."""


def alternate_sizes(problem: TorchProblem) -> dict[str, Any] | None:
    """Sizes that differ from the problem's own: another workload's, or another batch; None where there are none.

    A file's default sizes are no choice: where others were asked for, they may be far too large for this device.
    """
    named = [name for name in problem.workloads if name != DEFAULT_WORKLOAD]
    for name in sorted(named, key=lambda name: (name not in _PREFERRED, name)):
        sizes = dict(problem.workloads[name])
        if _effective(problem, sizes) != _effective(problem, dict(problem.sizes)):
            return sizes
    for name in _BATCH:
        now = problem.sizes.get(name, problem.constants.get(name))
        if isinstance(now, int) and not isinstance(now, bool) and now > 1:
            return {**problem.sizes, name: now // 2 + now % 2}
    return None


def _effective(problem: TorchProblem, sizes: dict[str, Any]) -> dict[str, Any]:
    return {**problem.constants, **sizes}
