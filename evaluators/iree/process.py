"""The client of the process that calls compiled modules."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...core import DeviceError, MlirProblem, Status
from ..workers.channel import Message
from ..workers.client import ServerEndedError, WorkerDiedError, WorkerTimeoutError
from .answers import read_answer
from .pinning import pin
from .processes import IreeProcesses
from .target import IreeTarget, require_runtime

START_S = 60.0
"""For imports, and for opening a GPU."""


class ModuleFailedError(Exception):
    """A module failed in its process: the status and a message."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class ModuleProcess:
    """A process with one problem, in which modules are loaded, compared and timed; a crash costs only it.

    What it answers may be any module's words: machine code of modules runs there.
    """

    def __init__(self, processes: IreeProcesses, target: IreeTarget, problem: MlirProblem, call_s: float) -> None:
        require_runtime()
        self._call_s = call_s
        self._copies = 0
        self._worker = processes.runner(target.visible, driver=target.driver)
        path = self._worker.inbox / "problem"
        path.write_bytes(pickle.dumps(problem))
        try:
            self.ask("open", START_S, problem=str(path), repeats=target.repeats)
        except ModuleFailedError as error:
            self.close()
            raise DeviceError(f"IREE's runtime cannot use {target.device}: {error}") from None
        pin(self.pid)

    @property
    def pid(self) -> int:
        """Process id; the process leads its own process group."""
        return self._worker.pid

    @property
    def alive(self) -> bool:
        """Whether it can take requests."""
        return self._worker.alive

    def load(self, name: str, path: Path) -> None:
        """Load a compiled module under a name, as a copy: the folder of all modules is hidden from it."""
        self._copies += 1
        copy = self._worker.inbox / f"{self._copies}.vmfb"
        shutil.copyfile(path, copy)
        try:
            self.ask("load", name=name, path=str(copy))
        finally:
            copy.unlink(missing_ok=True)

    def ask(self, op: str, seconds: float | None = None, **request: Any) -> Message:
        """Send a request of `worker.Modules` and return its answer; raises `ModuleFailedError`.

        After a crash or a request that took too long, the process is gone.
        """
        try:
            answer = read_answer(op, self._worker.call(seconds or self._call_s, op=op, **request))
        except WorkerTimeoutError:
            raise ModuleFailedError(Status.TIMEOUT, f"'{op}' took longer than {seconds or self._call_s:g} s") from None
        except WorkerDiedError as died:
            status = Status.NOT_MEASURED if died.killed else Status.CRASHED
            raise ModuleFailedError(status, died.cause or f"the process that ran it {died}{self._said()}") from None
        except ServerEndedError as ended:
            raise ModuleFailedError(Status.NOT_MEASURED, ended.message) from None
        except ValidationError:
            self.close()
            raise ModuleFailedError(Status.CRASHED, "the process that ran it sent no proper answer") from None
        if "error" in answer:
            raise ModuleFailedError(Status.RUNTIME_ERROR, answer["error"])
        return answer

    def _said(self) -> str:
        """The last line of its output."""
        lines = self._worker.log.splitlines()
        return f": {lines[-1]}" if lines else ""

    def close(self) -> None:
        """End it."""
        self._worker.discard()
