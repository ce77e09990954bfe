"""What `check` found out about kernels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..core import Evaluation, Speedup
from .stored_figures import Figure


class Verdict(StrEnum):
    """What was found out about a kernel."""

    AS_FAST = "as fast"
    FASTER = "faster"
    SLOWER = "slower"
    WRONG = "wrong"
    UNPROVEN = "unproven"
    """Correct by its own calls, and not replayed."""
    CHECKED = "checked"
    """Correct, and not compared."""
    DISTURBED = "disturbed"
    """Correct, and other processes disturbed the timing twice."""
    RECORDED = "recorded"


FAILED = (Verdict.WRONG, Verdict.UNPROVEN, Verdict.SLOWER)


@dataclass(frozen=True)
class KernelCheck:
    """The result of one kernel."""

    kernel: str
    """As it is filed: see `stored_figures.key_of`."""
    problem: str
    workload: str
    verdict: Verdict
    message: str
    """One line; '' where the verdict says everything."""
    failed: bool
    evaluation: Evaluation
    stored: Figure | None
    seconds: float

    def record(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it."""
        then = self.stored
        return {
            "kernel": self.kernel,
            "problem": self.problem,
            "workload": self.workload,
            "verdict": self.verdict.value,
            "failed": self.failed,
            "message": self.message,
            "evaluation": self.evaluation.summary().to_json(),
            "stored": {**then.speedup.model_dump(), "recorded": then.recorded} if then else None,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class CheckResult:
    """The results of all kernels."""

    device: str
    kernels: tuple[KernelCheck, ...]

    @property
    def failed(self) -> tuple[KernelCheck, ...]:
        """Those that are wrong, unproven, slower, or could not be recorded."""
        return tuple(item for item in self.kernels if item.failed)

    @property
    def environment(self) -> dict[str, str]:
        """Device and versions."""
        return self.kernels[0].evaluation.environment

    def summary(self) -> dict[str, Any]:
        """The results as plain data."""
        return {
            "device": self.device,
            "environment": self.environment,
            "failed": [item.kernel for item in self.failed],
            "kernels": [item.record() for item in self.kernels],
        }


def compare(stored: Speedup, now: Speedup, tolerance: float) -> Verdict:
    """Whether a kernel is slower or faster beyond both intervals and the tolerance.

    The interval of today is that of the medians within one run (`core.measurement`), the stored one spans those of
    several runs. The tolerance is for what else differs between days.
    """
    if now.high < stored.low * (1 - tolerance):
        return Verdict.SLOWER
    if now.low > stored.high * (1 + tolerance):
        return Verdict.FASTER
    return Verdict.AS_FAST
