"""The output files of `tune mlir`, with the auto-scheduler's names: run.log, the CSV, the modules."""

from __future__ import annotations

import csv
import io
import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...core import Config, Evaluation, MlirKernel, ResultsError, Slot, Value
from ...core.events import Emit, Event, FinalsStarted, Note, PartDone, TrialDone
from ...core.files import write_whole
from ...evaluators.iree.evaluator import IreeEvaluator
from ...evaluators.iree.target import IreeTarget
from ...tuners.mlir.names import config_name, operation_name, path_of
from ...tuners.mlir.space import Schedule
from ...tuners.mlir.spec import tuning_spec
from ...tuners.mlir.template import printed
from ._mlir_result import Result, ScheduledModule, duration

SINGLE = "-" * 64
LINE = "======================================="
COLUMNS = ("operation", "configuration", "status", "verification", "runtime_ms", "gflops", "times_default", "message")


@dataclass(frozen=True)
class TrialReport:
    """A trial, in the form of the auto-scheduler's console and CSV."""

    operation: str
    """`matmul_1024x512x256_f32t_f32t_f32t`."""
    kind: str
    configuration: str
    """`tilesize_64x64x128_...`."""
    command: str
    """The compiler's command line."""
    evaluation: Evaluation
    gflops: float | None

    @property
    def verification(self) -> str:
        """SUCCESS, FAILED, or the reason why neither is known."""
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

    def in_lines(self) -> str:
        """The auto-scheduler's block of a trial."""
        evaluation = self.evaluation
        runtime = f"{evaluation.latency_ms:.4f}" if evaluation.latency_ms else ""
        beside = f"{evaluation.speedup} times IREE's default" if evaluation.speedup else evaluation.message
        lines = [
            f"[Compiling (profile)] {self.command}",
            SINGLE,
            f"Dispatch      : {self.operation}_{self.configuration}",
            "Provider      : IREE Codegen",
            f"OpKind        : {self.kind}",
            f"Operation     : {self.operation}",
            f"Configuration : {self.configuration}",
            f"Verification  : {self.verification}",
            f"Runtime(ms)   : {runtime}",
            f"GFLOPs        : {f'{self.gflops:.2f}' if self.gflops else ''}",
            f"Status        : {evaluation.status}{f', {beside}' if beside else ''}",
            SINGLE,
        ]
        return "\n".join(lines)


class MlirRunFolder:
    """The folder of a run, to which trials are added as they end.

    The trials also go to `csv_file`, and the modules that are tried to `modules`, with the compiler's output if
    `commands` is set; with `blocks` each is shown as the auto-scheduler does.
    """

    def __init__(
        self,
        path: Path,
        scheduling: ScheduledModule,
        chip: str,
        csv_file: Path | None,
        modules: Path | None,
        commands: bool,
        blocks: bool,
    ) -> None:
        self.path = path
        self._scheduling = scheduling
        self._csv, self._modules, self._commands, self._blocks = csv_file, modules, commands, blocks
        self._target = IreeTarget(scheduling.device, chip)
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
        """Return the name of a config's dispatch, and write its module if requested."""
        if (path := self._module_path(schedule, config)) is not None and not path.exists():
            write_whole(path, printed(kernel.bind(config).source, kernel.name))
        return f"{operation_name(schedule.operation)}_{config_name(schedule, config)}"

    def watching(self, schedule: Schedule, kernel: MlirKernel, emit: Emit) -> Emit:
        """Return the `emit` of one operation's search, which adds its trials to the folder."""

        def watch(event: Event) -> None:
            if isinstance(event, TrialDone):
                report = self.note(schedule, kernel, event.evaluation)
                emit(PartDone(report))
                emit(Note(report.in_lines()) if self._blocks else event)
                return
            emit(event)
            if isinstance(event, FinalsStarted) and self._blocks:
                emit(Note(finals_text(event)))

        return watch

    def note(self, schedule: Schedule, kernel: MlirKernel, evaluation: Evaluation) -> TrialReport:
        """Keep a trial for the CSV, and write its module and command if requested."""
        config = Config(evaluation.config)
        self.emit(schedule, kernel, config)
        report = TrialReport(
            operation_name(schedule.operation),
            schedule.operation.kind,
            config_name(schedule, config),
            self._command(schedule, config),
            evaluation,
            # The times are those of the whole function.
            self._scheduling.gflops(evaluation.latency_ms),
        )
        self._rows.append(report.row())
        if self._commands and (path := self._module_path(schedule, config)) is not None:
            said = evaluation.log or evaluation.message
            write_whole(path.with_name(f"{path.stem}_cmd_stdout.txt"), f"{report.command}\n{said}\n")
        return report

    def finish(self, result: Result, evaluator: IreeEvaluator) -> Result:
        """Write the summary, and the module and its tuning spec if a trial was correct."""
        best = result.best
        if best is not None and result.faster:
            kernel = self._scheduling.kernel.bind(best.config)
            head = f"// {best.latency_ms:.4f} ms, {best.speedup} over IREE's default, on {self._scheduling.label}\n"
            module = write_whole(self.path / "best.mlir", head + printed(kernel.source, kernel.name))
            result = self._with_spec(result.model_copy(update={"module": module}), best, evaluator)
        write_whole(self.path / "summary.json", json.dumps(result.to_json(), indent=1) + "\n")
        return result

    def _with_spec(self, result: Result, best: Evaluation, evaluator: IreeEvaluator) -> Result:
        """Write the tuning spec, and build the unmodified module with it: the build must compute the same."""
        problem = self._scheduling.problem
        spec = tuning_spec(problem, self._infos(best.config))
        path = self.path / "tuning_spec.mlir"
        path.unlink(missing_ok=True)
        if not spec.text:
            return result.model_copy(update={"not_in_spec": spec.left_out})
        write_whole(path, spec.text + "\n")
        built = evaluator.compile(problem, problem.source, spec.text)
        wrong = evaluator.verify(problem, built)
        same = built.digest == best.code_digest
        found = {"spec": path, "spec_fault": wrong, "same_code": same, "not_in_spec": spec.left_out}
        return result.model_copy(update=found)

    def _infos(self, config: Mapping[str, Value]) -> dict[str, str]:
        """Return the schedules that a config sets, by operation."""
        filled = {
            schedule.operation.name: Slot(schedule.info).filled(config) for schedule in self._scheduling.schedules
        }
        return {name: info for name, info in filled.items() if info}

    def _module_path(self, schedule: Schedule, config: Config) -> Path | None:
        return None if self._modules is None else path_of(self._modules, schedule, config)

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


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def finals_text(event: FinalsStarted) -> str:
    """Describe what the final comparison measures."""
    finalists = "combinations of finalists and the default module"
    those = finalists if event.combined else "finalists and the unmodified module"
    return f"measuring {len(event.configs) - 1} {those}, interleaved"
