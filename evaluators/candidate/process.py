"""A candidate's process: requests with time limits, failures as verdicts, and a new process after each failure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ...core import Rejection, ResultsError, Status
from ..settings import Limits
from ..workers.client import Worker, WorkerDiedError, WorkerTimeoutError
from ..workers.patched_package import ROOM
from ..workers.shortages import SHORTAGES, lacked
from .responses import Response
from .verified import CandidateError, rejected

Form = TypeVar("Form", bound=Response)

OPENS_S = 60.0
"""Seconds that a worker may take to open its device."""
_STAGES = {
    "load": "loading",
    "weights": "loading weights",
    "run": "compiling or running",
    "again": "running",
    "time": "being timed",
    "timed_outputs": "timing",
    "operators": "running",
    "profile": "profiling",
    "record": "recording its launches",
    "draw_host": "running",
    "repeat": "running",
    "host": "running",
    "resize": "loading other sizes",
    "release": "freeing memory",
}


class CandidateProcess:
    """A worker that is started at the first request, and again where it has ended."""

    runs_foreign_code = True
    """Whether code of a candidate runs there that might end its process by any signal."""

    def __init__(self, new_worker: Callable[[], Worker], limits: Limits) -> None:
        self._new_worker = new_worker
        self._limits = limits
        self._worker: Worker | None = None

    @property
    def worker(self) -> Worker:
        """The worker, started if there is none."""
        if self._worker is None or not self._worker.alive:
            self.close()
            self._worker = self._new_worker()
        return self._worker

    def start(self) -> None:
        """Start a worker before there is a request for it."""
        _ = self.worker

    def open(self) -> None:
        """Wait until the worker has opened its device, which takes a second on a GPU; what fails shows later."""
        with contextlib.suppress(CandidateError):
            self.ask(Response, OPENS_S, "release")

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self.worker.pid

    @property
    def alive(self) -> bool:
        """Whether it has a worker that can continue."""
        return self._worker is not None and self._worker.alive

    @property
    def log(self) -> str:
        """The last output of the kernel and its compiler."""
        return self._worker.log if self._worker else ""

    @property
    def outputs(self) -> Path:
        """The file that the worker writes its outputs to."""
        return self.worker.folder / "outputs.bin"

    def kill(self) -> None:
        """Kill the worker without waiting for its end; `end` or `close` has to follow."""
        if self._worker is not None:
            self._worker.kill()

    def end(self) -> None:
        """End the worker and everything that it started; its files stay until `close`."""
        if self._worker is not None:
            self._worker.end()

    def close(self) -> None:
        """End the worker and everything that it started, and remove its files."""
        if self._worker is not None:
            self._worker.discard()

    def write(self, name: str, text: str, keep: bool) -> Path:
        """Write a file for the worker; with a new worker where an earlier kernel left no space on the disk."""
        path = self.worker.inbox / name
        try:
            path.write_text(text)
        except OSError as error:
            if keep:
                why = f"{error.strerror}: the kernels that it is compared with leave no space on the disk"
                raise CandidateError(Status.RUNTIME_ERROR, why) from None
            self.close()
            path = self.worker.inbox / name
            try:
                path.write_text(text)
            except OSError:
                raise ResultsError(f"cannot write {path}: {error.strerror}; {ROOM}") from None
        return path

    def rejected(self, rule: str, where: str, why: str) -> CandidateError:
        """End the worker, whose kernel broke a rule; return that as the failure."""
        self.worker.end()
        return rejected(Rejection(rule=rule, where=where, why=why))

    def ask(self, form: type[Form], seconds: float, op: str, **arguments: Any) -> Form:
        """Return the worker's answer.

        Raises `CandidateError`, which ends it, for an error, a bad answer or a broken rule.
        """
        worker = self.worker
        try:
            answer = worker.call(seconds, op=op, **arguments)
        except WorkerTimeoutError:
            raise CandidateError(Status.TIMEOUT, self.timed_out(op, seconds)) from None
        except WorkerDiedError as died:
            raise self._ended(op, died) from None
        if answer.get("ok") is True:
            try:
                broken = Response.model_validate(answer).violations
                if not broken:
                    return form.model_validate(answer)
            except ValidationError:
                worker.end()
                raise CandidateError(Status.CRASHED, self.died(op, "sent no proper answer")) from None
            worker.end()
            raise rejected(broken[0])
        worker.end()
        error = str(answer.get("error", "the process gave no reason"))
        if (cause := self._lacked(worker, error)) is not None:
            raise CandidateError(Status.NOT_MEASURED, cause)
        status = Status.COMPILE_ERROR if answer.get("stage") == "compile" or op == "load" else Status.RUNTIME_ERROR
        raise CandidateError(status, self.failed(error))

    def _ended(self, op: str, died: WorkerDiedError) -> CandidateError:
        """Return the failure of a process that ended: no verdict only where the machine is shown to be the cause."""
        if died.cause is not None:
            return CandidateError(Status.NOT_MEASURED, died.cause)
        if died.killed and not self.runs_foreign_code:
            return CandidateError(Status.NOT_MEASURED, f"{self.died(op, str(died))}, from outside")
        return CandidateError(Status.CRASHED, self.died(op, str(died)))

    def _lacked(self, worker: Worker, error: str) -> str | None:
        """Return what the machine lacked, where that is why a request failed.

        A disk that is full once the process's own files are gone was not filled by it.
        """
        if not any(said in error for said in SHORTAGES):
            return None
        folder = worker.folder.parent
        if lacked(error, folder, self._limits.file_gib) is None:
            return None
        worker.discard()
        return lacked(error, folder, self._limits.file_gib)

    def timed_out(self, op: str, seconds: float) -> str:
        """Return the message of a request that did not end in time."""
        return f"did not finish within {seconds:.0f} s ({_STAGES[op]})"

    def died(self, op: str, how: str) -> str:
        """Return the message of a process that ended, or sent something else than an answer."""
        return f"the process {how} ({_STAGES[op]})"

    def failed(self, error: str) -> str:
        """Return the message of a request that ended with an error."""
        return error
