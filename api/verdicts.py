"""The results of several protocols for one kernel, and the reason of a difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core import Evaluation, Status
from ..evaluators.kernelbench.result import KernelBenchResult

FAR_APART = 1.1
"""Speedups that differ by no more count as equal."""
_WHY_ACCEPTED = {
    Status.UNPROVEN: "it times what the kernel's own Python does",
    Status.REJECTED: "it looks at results only",
    Status.WRONG_DTYPE: "it does not compare dtypes",
    Status.WRONG_VALUE: "it tries the problem's own inputs only, from seeds that are always the same",
}


@dataclass(frozen=True)
class ProtocolVerdicts:
    """The results of the requested protocols for one kernel."""

    problem: str
    workload: str
    evaluation: Evaluation | None = None
    refusal: str = ""
    """Why there is no evaluation: the file is no kernel."""
    result: KernelBenchResult | None = None

    @property
    def correct(self) -> bool:
        """Whether every requested protocol accepts it."""
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
            found |= {"environment": self.evaluation.environment, **self.evaluation.summary().to_json()}
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
    tf32 = ", and TF32 where torch has it on" if strict.environment.get("tf32") == "off" else ""
    return f"{both}: strict compares medians, timed interleaved; kernelbench means, with gradients on{tf32}"
