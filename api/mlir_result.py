"""The result of scheduling a module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import Evaluation, MlirKernel, MlirProblem, RunRecord
from ..core.workload_rows import loses
from ..tuners.mlir.space import Schedule
from ..tuners.search import Found


@dataclass(frozen=True)
class Scheduling:
    """What is tuned: the function as a problem, its operations' spaces, and the module as a kernel."""

    problem: MlirProblem
    schedules: tuple[Schedule, ...]
    kernel: MlirKernel
    device: str
    label: str

    @property
    def size(self) -> int:
        """Configs of all operations, which are searched one after another."""
        return sum(schedule.space.cardinality for schedule in self.schedules)

    def record(self, tuner: str, chip: str) -> RunRecord:
        """The run's identity."""
        return RunRecord(
            problem=self.problem.id, reference=self.problem.digest, kernel=self.kernel.digest, device=self.label,
            backend=f"{self.kernel.backend} {chip}", model=tuner,
        )  # fmt: skip


@dataclass(frozen=True)
class Transformed:
    """The spaces of a module's operations, and the seconds that making them took."""

    scheduling: Scheduling
    seconds: float


@dataclass(frozen=True)
class MlirResult:
    """A finished run, and its files."""

    scheduling: Scheduling
    tuner: str
    folder: Path
    found: tuple[Found, ...]
    """The searches, one per operation."""
    finals: tuple[Evaluation, ...]
    """The finalists for the whole function and the default module (an empty config), timed interleaved, the fastest
    first."""
    module: Path | None = None
    """The module with the best schedules; None where none is faster than IREE's default."""
    spec: Path | None = None
    """The tuning spec: the same for builds of the module as it was. None where it could carry nothing."""
    spec_fault: str = ""
    """What is wrong with the module as it was, built with the spec; empty where it computes what it should."""
    same_code: bool | None = None
    """Whether that is the code that was measured."""
    not_in_spec: tuple[str, ...] = ()
    """Operations whose schedules a spec cannot carry."""
    dry: bool = False

    @property
    def default(self) -> Evaluation | None:
        """The default module, timed beside the finalists."""
        return next((finalist for finalist in self.finals if not finalist.config), None)

    @property
    def best(self) -> Evaluation | None:
        """The winner; None where nothing was correct."""
        timed = (finalist for finalist in self.finals if finalist.latency_ms is not None and finalist.config)
        return next((item for item in timed if loses(item, self.default) is None), None)

    @property
    def faster(self) -> bool:
        """Whether the winner beats IREE's default beyond doubt."""
        return self.best is not None and self.best.speedup is not None and self.best.speedup.low > 1.0

    @property
    def trials(self) -> int:
        """Of all operations."""
        return sum(item.progress.trials for item in self.found)

    @property
    def failed(self) -> int:
        """Trials that did not end correct."""
        return sum(item.progress.failed for item in self.found)

    def gflops(self, evaluation: Evaluation | None) -> float | None:
        """Operations per second, in 1e9."""
        latency = evaluation.latency_ms if evaluation else None
        return self.scheduling.problem.flops / latency / 1e6 if latency else None

    def default_gflops(self) -> float | None:
        """The default module's, beside which the winner was timed."""
        reference = self.best.reference if self.best else None
        return self.scheduling.problem.flops / reference.median_ms / 1e6 if reference else None

    def summary(self) -> dict[str, Any]:
        """What --json prints; times in milliseconds."""
        scheduling, best = self.scheduling, self.best
        operations = [
            {
                "operation": schedule.operation.name,
                "shape": schedule.operation.shape,
                "configs": schedule.space.cardinality,
                **({} if self.dry else self._searched(number)),
            }
            for number, schedule in enumerate(scheduling.schedules)
        ]
        return {
            "problem": scheduling.problem.id,
            "function": scheduling.problem.function,
            "device": scheduling.label,
            "environment": next((finalist.environment for finalist in self.finals if finalist.environment), {}),
            "tuner": self.tuner,
            "operations": operations,
            "dry_run": self.dry,
            "trials": self.trials,
            "failed": self.failed,
            "default": self.default.metrics().to_json() if self.default else None,
            "best": {"config": best.config, **best.metrics().to_json()} if best else None,
            "faster": self.faster,
            "gflops": self.gflops(best),
            "default_gflops": self.default_gflops(),
            "module": str(self.module) if self.module else None,
            "tuning_spec": str(self.spec) if self.spec else None,
            "spec_fault": self.spec_fault,
            "spec_gives_the_same_code": self.same_code,
            "not_in_spec": list(self.not_in_spec),
            "folder": str(self.folder),
        }

    def _searched(self, number: int) -> dict[str, Any]:
        found = self.found[number] if number < len(self.found) else None
        if found is None:
            return {}
        progress = found.progress
        return {
            "trials": progress.trials,
            "recalled": progress.recalled,
            "statuses": {status.value: count for status, count in progress.statuses.items()},
            "seconds": round(progress.seconds, 3),
            "stopped": found.stopped,
        }
