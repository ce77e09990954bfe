"""The result of scheduling a module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ...core import Evaluation, MlirKernel, MlirProblem, RunRecord
from ...core.workload_rows import loses
from ...runtime import result
from ...runtime.command import search_code
from ...runtime.result import describe_config, file_lines, table
from ...tuners.mlir.space import Schedule
from ...tuners.search import Found

DOUBLE, STARS = "=" * 58, "*" * 56


@dataclass(frozen=True)
class ScheduledModule:
    """The tuned module: the function as a problem, spaces of its operations, and the module as a kernel."""

    problem: MlirProblem
    schedules: tuple[Schedule, ...]
    kernel: MlirKernel
    device: str
    label: str

    @property
    def size(self) -> int:
        """Number of configs of all operations, which are searched one after another."""
        return sum(schedule.space.cardinality for schedule in self.schedules)

    def gflops(self, latency_ms: float | None) -> float | None:
        """Operations per second of the whole function, in 1e9."""
        return self.problem.flops / latency_ms / 1e6 if latency_ms else None

    def record(self, tuner: str, chip: str) -> RunRecord:
        """The run's identity."""
        return RunRecord(
            problem=self.problem.id, reference=self.problem.digest, kernel=self.kernel.digest, device=self.label,
            backend=f"{self.kernel.backend} {chip}", model=tuner,
        )  # fmt: skip


class Result(result.Result):
    """A finished run, and its files."""

    inlined: ClassVar = ("record",)
    scheduling: result.ForPython[ScheduledModule]
    tuner: result.ForPython[str]
    folder: result.ForPython[Path]
    found: result.ForPython[tuple[Found, ...]] = ()
    """The searches, one per operation."""
    finals: result.ForPython[tuple[Evaluation, ...]] = ()
    """The finalists for the whole function and the default module (an empty config), timed interleaved, the fastest
    first."""
    module: result.ForPython[Path | None] = None
    """The module with the best schedules; None if none is faster than IREE's default."""
    spec: result.ForPython[Path | None] = None
    """The tuning spec, which applies the schedules in builds of the original module; None if it would be empty."""
    spec_fault: result.ForPython[str] = ""
    """Error of the original module when built with the spec; empty if it is correct."""
    same_code: result.ForPython[bool | None] = None
    """Whether the build with the spec has the measured code."""
    not_in_spec: result.ForPython[tuple[str, ...]] = ()
    """Operations whose schedules a spec cannot carry."""
    dry: result.ForPython[bool] = False

    @property
    def default(self) -> Evaluation | None:
        """The default module, timed with the finalists."""
        return next((finalist for finalist in self.finals if not finalist.config), None)

    @property
    def best(self) -> Evaluation | None:
        """The winner; None if nothing was correct."""
        timed = (finalist for finalist in self.finals if finalist.latency_ms is not None and finalist.config)
        return next((item for item in timed if loses(item, self.default) is None), None)

    @property
    def faster(self) -> bool:
        """Whether the winner is significantly faster than IREE's default."""
        return self.best is not None and self.best.speedup is not None and self.best.speedup.low > 1.0

    @property
    def trials(self) -> int:
        """Trials of all operations together."""
        return sum(item.progress.trials for item in self.found)

    @property
    def failed(self) -> int:
        """Trials without a correct result."""
        return sum(item.progress.failed for item in self.found)

    @result.computed
    def record(self) -> dict[str, Any]:
        """The whole result; times in milliseconds."""
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
            "gflops": scheduling.gflops(best.latency_ms) if best else None,
            "default_gflops": scheduling.gflops(best.reference.median_ms) if best and best.reference else None,
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

    @property
    def exit_code(self) -> int:
        """0 if a schedule is faster, or nothing was to be run; 1 if none was correct."""
        return 0 if self.dry else search_code(self.best is not None, self.faster)

    @property
    def failure(self) -> str:
        """Why there is no winner."""
        if self.dry or self.best is not None:
            return ""
        first = next((e.message for item in self.found for e in item.evaluations if e.message), "nothing was tried")
        return (
            f"none of {self.trials} configs is correct, first: {escape(first)}; all are in {escape(str(self.folder))}; "
            "widen the space"
        )

    @property
    def warnings(self) -> list[str]:
        """Remarks on a winner that is not faster, and on limits of the tuning spec."""
        best, found = self.best, []
        if best is None:
            return []
        if best.speedup is not None and best.speedup.high < 1:
            found.append("it is slower than IREE's default: keep the original module")
        elif not self.faster:
            found.append("it is not measurably faster than IREE's default")
        if self.spec_fault:
            found.append(f"built with the tuning spec, the unmodified module fails: {self.spec_fault}")
        elif self.same_code is False:
            found.append(
                "built with the tuning spec, the unmodified module is correct, but not the code that was measured"
            )
        if self.not_in_spec:
            found.append(f"a tuning spec cannot carry the schedules of {', '.join(self.not_in_spec)}; use best.mlir")
        return found

    def lines(self) -> Iterator[Any]:
        """The winner, the auto-scheduler's table and the files."""
        best = self.best
        if best is None:
            return
        seconds = sum(item.progress.seconds for item in self.found)
        yield Text.from_markup(
            f"\n{STARS}\n[bold]\\[Performance][/]: The best is {escape(describe_config(best.config))}"
        )
        yield f"with gflops {self.scheduling.gflops(best.latency_ms):.2f}\n\n{duration(seconds)}\n{STARS}\n{DOUBLE}"
        yield _table(self)
        yield from file_lines(module=self.module, tuning_spec=self.spec, folder=self.folder)


def _table(result: Result) -> Table:
    """The auto-scheduler's table: speeds relative to IREE's default."""
    best, scheduling = result.best, result.scheduling
    rows = table("operations", "ms (tuned/IREE)", "GFLOPS (tuned/IREE)", "times as fast", plain=True)
    assert best is not None and best.reference is not None
    shapes = ", ".join(f"{operation.kind} {operation.shape}" for operation in scheduling.problem.operations)
    times = f"{best.latency_ms:.4f}/{best.reference.median_ms:.4f}"
    rates = f"{scheduling.gflops(best.latency_ms):.1f}/{scheduling.gflops(best.reference.median_ms):.1f}"
    rows.add_row(shapes, times, rates, str(best.speedup))
    return rows


def duration(seconds: float) -> str:
    """'0 hours 1 minutes 30 seconds', as the auto-scheduler writes it."""
    whole = round(seconds)
    return f"{whole // 3600} hours {whole // 60 % 60} minutes {whole % 60} seconds"
