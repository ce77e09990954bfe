"""What `evaluate` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from ...api.explain import in_one_line
from ...core import Evaluation, Rejection, Status
from .reply import Reply, disturbed

if TYPE_CHECKING:
    from ...api.verdicts import ProtocolVerdicts

FAILED = "call explain_error for the reason and the lines around it, fix that, and evaluate again"


class WorkloadTime(Reply):
    """A kernel at one of its workloads."""

    status: Status
    latency_ms: float | None
    """Median milliseconds of one call; null where it was not timed."""
    speedup: float | None
    """Over the reference."""


class Verdict(Reply):
    """Whether a kernel is correct, and how fast. Times are medians of one call."""

    kernel: str
    """As it was named in the call."""
    problem: str
    """The id of the problem that it solves."""
    workload: str
    """The sizes at which it was checked and timed."""
    device: str
    """The name of the processor or GPU."""
    correct: bool
    """Whether it computes what the reference does, for new inputs and weights of several distributions, and that is
    proven."""
    status: Status
    """ok; unproven where its launches could not be replayed without its Python, so that its times are no result; or the
    step that failed."""
    message: str
    """The failure, or a remark, in one line; empty where there is none."""
    rule: Rejection | None
    """With status rejected: the rule that the kernel broke, where, and what to do instead."""
    latency_ms: float | None
    """Milliseconds; null where it was not timed, as Triton on a CPU."""
    reference_ms: float | None
    """Milliseconds of the reference, eager PyTorch in fp32, timed interleaved with the kernel."""
    speedup: float | None
    """reference_ms / latency_ms."""
    interval: tuple[float, float] | None
    """In which the speedup lies, from the 95 % intervals of both medians: less than this is noise."""
    speedup_compile: float | None
    """Over torch.compile; null where that was not measured on this device."""
    max_abs_error: float | None
    """The largest absolute error of all comparisons."""
    workloads: dict[str, WorkloadTime] = Field(default_factory=dict)
    """Of a function that is judged at several workloads: each by its name; the times above are geometric means then."""
    warnings: list[str]
    """What makes the figures or the verdict doubtful; empty where nothing does."""
    next: str
    """What to do next."""

    @classmethod
    def of(cls, kernel: str, verdicts: ProtocolVerdicts) -> Verdict:
        """The verdict in `api`'s record."""
        evaluation = verdicts.evaluation
        assert evaluation is not None, "tools evaluate by the strict protocol"
        metrics = evaluation.metrics()
        checked = evaluation.correctness
        return cls(
            kernel=kernel,
            problem=verdicts.problem,
            workload=verdicts.workload,
            device=evaluation.environment.get("device", ""),
            correct=evaluation.ok,
            status=evaluation.status,
            message=in_one_line(evaluation),
            rule=evaluation.rejection,
            latency_ms=metrics.latency_ms,
            reference_ms=metrics.reference_ms,
            speedup=metrics.speedup,
            interval=metrics.interval,
            speedup_compile=metrics.speedup_compile,
            max_abs_error=checked.own_error if checked else None,
            workloads={
                name: WorkloadTime(status=one.status, latency_ms=one.latency_ms, speedup=one.speedup)
                for name, one in metrics.workloads.items()
            },
            warnings=warnings_of(evaluation),
            next=_next(evaluation),
        )


def warnings_of(evaluation: Evaluation) -> list[str]:
    """What is doubtful about an evaluation."""
    found = disturbed(evaluation.contention)
    checked = evaluation.correctness
    if checked is not None and checked.trivial_outputs:
        found.append(f"{' and '.join(checked.trivial_outputs)} would have passed too, so this proves little")
    if checked is not None and checked.deterministic is False:
        found.append("two calls on the same inputs returned different results")
    if evaluation.shape_specialised and evaluation.second_workload is not None:
        other = evaluation.second_workload
        sizes = ", ".join(f"{name}={value}" for name, value in other.sizes.items())
        found.append(f"shape-specialised: {other.status} at {sizes}")
    if evaluation.replay is not None and not evaluation.replay.replayed:
        found.append(evaluation.replay.why_not)
    return found


def _next(evaluation: Evaluation) -> str:
    if not evaluation.ok:
        return FAILED
    if evaluation.latency_ms is None:
        return "it is correct and was not timed here: time it on a device that its language compiles for"
    return "call profile for the bottleneck; where that is settled, tune its constants"
