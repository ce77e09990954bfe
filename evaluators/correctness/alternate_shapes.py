"""Other sizes at which a kernel must be correct too, so that a kernel for one shape only is not accepted."""

from __future__ import annotations

from typing import Any

from ...core import DEFAULT_WORKLOAD, TorchProblem

_PREFERRED = ("tiny", "cpu")
"""Names of cheap workloads."""
_BATCH = ("batch_size", "BATCH_SIZE", "batch", "B", "N", "M")
"""Constants that usually are a free extent in a file without workloads."""


def alternate_sizes(problem: TorchProblem) -> dict[str, Any] | None:
    """Return sizes that differ from the problem's own: another workload's, or another batch; None without any.

    A file's default sizes are not used: where others were requested, they may be far too large for this device.
    """
    named = [name for name in problem.workloads if name != DEFAULT_WORKLOAD]
    # The others in the order in which the problem declares them.
    for name in [*sorted(set(named).intersection(_PREFERRED)), *(item for item in named if item not in _PREFERRED)]:
        sizes = dict(problem.workloads[name])
        if _effective(problem, sizes) != _effective(problem, dict(problem.sizes)):
            return sizes
    for name in _BATCH if problem.has_free_sizes else ():
        now = problem.sizes.get(name, problem.constants.get(name))
        if isinstance(now, int) and not isinstance(now, bool) and now > 1:
            return {**problem.sizes, name: now // 2 + now % 2}
    return None


def _effective(problem: TorchProblem, sizes: dict[str, Any]) -> dict[str, Any]:
    return {**problem.constants, **sizes}
