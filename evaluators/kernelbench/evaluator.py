"""The calling side of the protocol: a fresh worker per kernel, and results for failed workers."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from ...core import DeviceError, TorchProblem
from ..pipeline.processes import Processes
from ..pipeline.servers import languages_named
from ..workers.client import Worker, WorkerDiedError, WorkerTimeoutError
from ..workers.device_lock import DeviceLock
from .precision import KernelBenchPrecision
from .result import KernelBenchResult

ROLE = "kernelbench.protocol"
OPENING_S = 120.0
MEMORY_GIB = 24.0
"""Reference and candidate share the process, and KernelBench makes inputs on the host."""


@dataclass(frozen=True)
class KernelBenchSettings:
    """The defaults of KernelBench's eval_from_generations.py."""

    correct_trials: int = 5
    perf_trials: int = 100
    """Timed calls; 0 checks without timing."""
    timeout_s: float = 180.0
    """Limit for loading, compiling, checking and timing together, in seconds."""
    precision: KernelBenchPrecision = KernelBenchPrecision.FP32


class _Opened(BaseModel):
    hardware: str
    uuid: str | None


class _WorkerAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    result: KernelBenchResult


class KernelBench:
    """Evaluates as KernelBench does, in workers of `processes`, which the caller closes."""

    def __init__(self, processes: Processes, settings: KernelBenchSettings | None = None) -> None:
        self._processes = processes
        self._settings = settings or KernelBenchSettings()

    def evaluate(self, problem: TorchProblem, source: str, backend: str) -> KernelBenchResult:
        """Evaluate a kernel's source; `backend` is 'triton', 'tilelang', or 'cuda' for all others.

        A worker that dies, hangs or sends an invalid response gives a result too: not compiled, with 'other_error'.
        """
        # The reference runs in the candidate's process here, so free the device memory of other workers.
        self._processes.forget_reference()
        self._processes.servers.load(languages_named(source))
        kind, _, number = self._processes.device.partition(":")
        label = kind if kind == "cpu" else f"{kind}:{number or 0}"
        worker = self._processes.untrusted(ROLE, {"label": label, "memory_gib": MEMORY_GIB})()
        try:
            opened = _opened(worker)
            where = {"hardware": opened.hardware, "device": label}
            with DeviceLock(opened.uuid or self._processes.device).held():
                return self._ask(worker, problem, source, backend, where)
        finally:
            worker.discard()

    def _ask(
        self, worker: Worker, problem: TorchProblem, source: str, backend: str, where: dict[str, str]
    ) -> KernelBenchResult:
        settings = self._settings
        try:
            answer = worker.call(
                settings.timeout_s,
                op="evaluate",
                reference=problem.source,
                sizes=dict(problem.sizes),
                candidate=source,
                backend=backend,
                precision=settings.precision,
                correct_trials=settings.correct_trials,
                perf_trials=settings.perf_trials,
            )
            return _WorkerAnswer.model_validate(answer).result
        except WorkerTimeoutError:
            reason = f"did not finish within {settings.timeout_s:g} s"
            return _failed(reason, "multiprocessing.context.TimeoutError", where)
        except WorkerDiedError as died:
            return _failed(f"the process {died}", "WorkerDied", where)
        except ValidationError:
            return _failed("the process sent no proper answer", "WorkerDied", where)


def _opened(worker: Worker) -> _Opened:
    """Return the worker's machine; no candidate code has run yet, so a failure is not the kernel's."""
    try:
        return _Opened.model_validate(worker.call(OPENING_S, op="open"))
    except (WorkerTimeoutError, WorkerDiedError) as error:
        last = "".join(worker.log.splitlines()[-1:])
        raise DeviceError(f"the worker of the KernelBench protocol {error or 'does not start'}: {last}") from None


def _failed(reason: str, name: str, where: dict[str, str]) -> KernelBenchResult:
    return KernelBenchResult(metadata={"other_error": f"error: {reason}", "other_error_name": name, **where})
