"""An evaluation as a Trace."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...core import Evaluation, Status
from .schema import Correctness, Environment, Performance, Trace, TraceEvaluation, Workload
from .schema import Status as TraceStatus

STATUSES: Mapping[Status, TraceStatus | None] = {
    Status.OK: "PASSED",
    Status.UNPROVEN: "RUNTIME_ERROR",  # it has no status for what may be right and is not shown to be
    Status.REJECTED: "RUNTIME_ERROR",
    Status.COMPILE_ERROR: "COMPILE_ERROR",
    Status.RUNTIME_ERROR: "RUNTIME_ERROR",
    Status.WRONG_SHAPE: "INCORRECT_SHAPE",
    Status.WRONG_DTYPE: "INCORRECT_DTYPE",
    Status.WRONG_VALUE: "INCORRECT_NUMERICAL",
    Status.TIMEOUT: "TIMEOUT",
    Status.CRASHED: "RUNTIME_ERROR",
    Status.NOT_MEASURED: None,
}
SOL_STATUSES: Mapping[Status, TraceStatus | None] = {**STATUSES, Status.REJECTED: "REWARD_HACK"}
_NO_VERSIONS = frozenset({"device", "sandbox", "threads", "tf32", "uuid"})


def trace_of(
    definition: str, workload: Workload, solution: str, evaluation: Evaluation, timestamp: str, sol: bool = False
) -> Trace | None:
    """Return an evaluation of a Solution as a Trace, with SOL-ExecBench's statuses if `sol`.

    None for a kernel that was found correct but not timed, since PASSED needs times, and for what is no
    verdict. `timestamp` is in ISO format.
    """
    status = (SOL_STATUSES if sol else STATUSES)[evaluation.status]
    performance = _performance(evaluation)
    if status is None or (status == "PASSED" and performance is None):
        return None
    environment = evaluation.environment
    texts = [str(evaluation.rejection or evaluation.message), evaluation.log]
    return Trace(
        definition=definition,
        workload=workload,
        solution=solution,
        evaluation=TraceEvaluation(
            status=status,
            environment=Environment(
                hardware=environment.get("device") or "unknown",
                libs={name: text for name, text in environment.items() if name not in _NO_VERSIONS},
            ),
            timestamp=timestamp,
            log="\n".join(filter(None, texts)),
            correctness=_correctness(evaluation) if status in ("PASSED", "INCORRECT_NUMERICAL") else None,
            performance=performance if status == "PASSED" else None,
        ),
    )


def _correctness(evaluation: Evaluation) -> Correctness:
    found = evaluation.correctness
    if found is None:
        return Correctness(max_relative_error=math.nan, max_absolute_error=math.nan)
    # On the Workload's own inputs: on others ours may be larger by orders of magnitude, and so their errors.
    absolute, relative = found.own_errors or (found.max_abs_error, found.max_rel_error)
    extra = {"seeds": list(found.seeds), "tolerance": found.tolerance, "distributions": list(found.distributions)}
    return Correctness(max_relative_error=relative, max_absolute_error=absolute, extra=extra)


def _performance(evaluation: Evaluation) -> Performance | None:
    speedup, reference = evaluation.speedup, evaluation.reference
    if evaluation.latency_ms is None or speedup is None or reference is None:
        return None
    return Performance(
        latency_ms=evaluation.latency_ms, reference_latency_ms=reference.median_ms, speedup_factor=speedup.ratio
    )


def invalid_reference(
    definition: str, workload: Workload, solution: str, reason: str, hardware: str, now: str
) -> Trace:
    """Return the Trace of a reference that fails, which only SOL-ExecBench has a status for."""
    evaluation = TraceEvaluation(
        status="INVALID_REFERENCE", environment=Environment(hardware=hardware), timestamp=now, log=reason
    )
    return Trace(definition=definition, workload=workload, solution=solution, evaluation=evaluation)
