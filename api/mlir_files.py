"""The files that a run of `tune mlir` leaves, by the auto-scheduler's names: run.log, the CSV, the modules."""

from __future__ import annotations

import csv
import io
import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ..core import Config, Evaluation, MlirKernel, ResultsError, Slot, Value
from ..core.events import Emit, Event, PartDone, TrialDone
from ..core.files import write_whole
from ..evaluators.iree.evaluator import IreeEvaluator
from ..evaluators.iree.target import IreeTarget
from ..tuners.mlir.names import config_name, operation_name, path_of
from ..tuners.mlir.space import Schedule
from ..tuners.mlir.spec import tuning_spec
from ..tuners.mlir.template import printed
from .mlir_result import MlirResult, Scheduling
from .options.mlir import MlirOptions

LINE = "======================================="
COLUMNS = ("operation", "configuration", "status", "verification", "runtime_ms", "gflops", "times_default", "message")


@dataclass(frozen=True)
class TrialReport:
    """A trial, as the auto-scheduler's console and CSV show it."""

    operation: str
    """`matmul_1024x512x256_f32t_f32t_f32t`."""
    kind: str
    configuration: str
    """`tilesize_64x64x128_...`."""
    command: str
    """The compiler's, as a command line."""
    evaluation: Evaluation
    gflops: float | None

    @property
    def verification(self) -> str:
        """SUCCESS, FAILED, or why neither is known."""
        correctness = self.evaluation.correctness
        return "Not verified" if correctness is None else "SUCCESS" if correctness.passed else "FAILED"

    def row(self) -> dict[str, object]:
        """A line of the CSV."""
        speedup = self.evaluation.speedup
        return {
            "operation": self.operation,
            "configuration": self.configuration,
            "status": self.evaluation.status.value,
            "verification": self.verification,
            "runtime_ms": _rounded(self.evaluation.latency_ms),
            "gflops": _rounded(self.gflops),
            "times_default": _rounded(speedup.ratio if speedup else None),
            "message": self.evaluation.message,
            **self.evaluation.config,
        }


class RunFolder:
    """The folder of a run; what it lacks is written as the run goes on."""

    def __init__(self, path: Path, scheduling: Scheduling, options: MlirOptions, csv: Path | None) -> None:
        self.path = path
        self._scheduling, self._options, self._csv = scheduling, options, csv
        self._target = IreeTarget(scheduling.device, options.chip or "")
        self._rows: list[dict[str, object]] = []
        self._began = time.monotonic()

    def started(self, now: datetime, seconds: float, resumed: bool) -> None:
        """Begin the log's entry of this run."""
        size = self._scheduling.size
        again = "[Resumed]\n\n" if resumed else ""
        self._log(
            f"[Date]: {now:%d/%m/%Y %H:%M:%S}\n\n{again}[Transform Time]: {duration(seconds)}\n\n"
            f"[Search Space Size]: {size}\n\n"
        )
        self._began = time.monotonic()

    def searched(self) -> None:
        """End the log's entry, and write the CSV."""
        valid = sum(row["status"] == "ok" for row in self._rows)
        self._log(f"valid run: {valid}\n[Search Time]: {duration(time.monotonic() - self._began)}\n\n{LINE}\n\n")
        if not self._rows:
            return
        columns = [*COLUMNS, *dict.fromkeys(name for row in self._rows for name in row if name not in COLUMNS)]
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._rows)
        for path in dict.fromkeys([self.path / "trials.csv", *([self._csv] if self._csv else [])]):
            write_whole(path, text.getvalue())

    def emit(self, schedule: Schedule, kernel: MlirKernel, config: Config) -> str:
        """Return the name of a config's dispatch; write its module where that was asked for."""
        if (path := self._module_path(schedule, config)) is not None and not path.exists():
            write_whole(path, printed(kernel.bind(config).source, kernel.name))
        return f"{operation_name(schedule.operation)}_{config_name(schedule, config)}"

    def watching(self, schedule: Schedule, kernel: MlirKernel, emit: Emit) -> Emit:
        """Return the `emit` of one operation's search, which keeps the folder in step with its trials."""

        def watch(event: Event) -> None:
            if isinstance(event, TrialDone):
                emit(PartDone(self.note(schedule, kernel, event.evaluation)))
            emit(event)

        return watch

    def note(self, schedule: Schedule, kernel: MlirKernel, evaluation: Evaluation) -> TrialReport:
        """Keep a trial for the CSV; write its module and its command where that was asked for."""
        config = Config(evaluation.config)
        self.emit(schedule, kernel, config)
        report = TrialReport(
            operation_name(schedule.operation),
            schedule.operation.kind,
            config_name(schedule, config),
            self._command(schedule, config),
            evaluation,
            # The times are those of the whole function.
            _rate(self._scheduling.problem.flops, evaluation.latency_ms),
        )
        self._rows.append(report.row())
        if self._options.save_cmds and (path := self._module_path(schedule, config)) is not None:
            said = evaluation.log or evaluation.message
            write_whole(path.with_name(f"{path.stem}_cmd_stdout.txt"), f"{report.command}\n{said}\n")
        return report

    def finish(self, result: MlirResult, evaluator: IreeEvaluator) -> MlirResult:
        """Write the summary, and where something was correct the module and its tuning spec."""
        best = result.best
        if best is not None and result.faster:
            kernel = self._scheduling.kernel.bind(best.config)
            head = f"// {best.latency_ms:.4f} ms, {best.speedup} over IREE's default, on {self._scheduling.label}\n"
            module = write_whole(self.path / "best.mlir", head + printed(kernel.source, kernel.name))
            result = self._with_spec(replace(result, module=module), best, evaluator)
        write_whole(self.path / "summary.json", json.dumps(result.summary(), indent=1) + "\n")
        return result

    def _with_spec(self, result: MlirResult, best: Evaluation, evaluator: IreeEvaluator) -> MlirResult:
        """Write the tuning spec, and build the module as it was with it: that must compute the same."""
        problem = self._scheduling.problem
        spec = tuning_spec(problem, self._infos(best.config))
        path = self.path / "tuning_spec.mlir"
        path.unlink(missing_ok=True)
        if not spec.text:
            return replace(result, not_in_spec=spec.left_out)
        write_whole(path, spec.text + "\n")
        built = evaluator.compile(problem, problem.source, spec.text)
        wrong = evaluator.verify(problem, built)
        same = built.digest == best.code_digest
        return replace(result, spec=path, spec_fault=wrong, same_code=same, not_in_spec=spec.left_out)

    def _infos(self, config: Mapping[str, Value]) -> dict[str, str]:
        """Return the schedules that a config sets, by operation."""
        filled = {
            schedule.operation.name: Slot(schedule.info).filled(config) for schedule in self._scheduling.schedules
        }
        return {name: info for name, info in filled.items() if info}

    def _module_path(self, schedule: Schedule, config: Config) -> Path | None:
        return None if self._options.emit is None else path_of(self._options.emit, schedule, config)

    def _command(self, schedule: Schedule, config: Config) -> str:
        path = self._module_path(schedule, config)
        source, target = (path, path.with_suffix(".vmfb")) if path else (Path("-"), Path("module.vmfb"))
        return shlex.join(["iree-compile", str(source), "-o", str(target), *self._target.flags])

    def _log(self, text: str) -> None:
        path = self.path / "run.log"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(text)
        except OSError as error:
            raise ResultsError(f"cannot write {path}: {error.strerror}; choose another folder") from None


def duration(seconds: float) -> str:
    """'0 hours 1 minutes 30 seconds', as the auto-scheduler writes it."""
    whole = round(seconds)
    return f"{whole // 3600} hours {whole // 60 % 60} minutes {whole % 60} seconds"


def _rate(flops: int, latency_ms: float | None) -> float | None:
    return flops / latency_ms / 1e6 if latency_ms else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
