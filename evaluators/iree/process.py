"""The client of the process that calls compiled modules."""

from __future__ import annotations

import os
import pickle
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ...core import DeviceError, MlirProblem, Status
from ...core.environment import allowed_environment
from ..workers.channel import Channel, ChannelClosed, ChannelTimeout, Message
from ..workers.client import describe_exit, import_path
from .target import IreeTarget, require_runtime

START_S = 60.0
"""For imports, and for opening a GPU."""


class ModuleFailed(Exception):
    """A module failed in its process: the status and a message."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class ModuleProcess:
    """A process with one problem, in which modules are loaded, compared and timed; a crash costs only it."""

    def __init__(self, target: IreeTarget, problem: MlirProblem, call_s: float) -> None:
        require_runtime()
        self._call_s = call_s
        self._channel, theirs = Channel.pair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        with theirs:
            self._process = subprocess.Popen(
                # -P: see `workers.client.start_server`.
                [sys.executable, "-P", "-m", f"{__package__}.worker", str(theirs.fileno()), target.driver],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={**allowed_environment(os.environ), **import_path(), **target.variables},
                start_new_session=True,
            )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "problem"
            path.write_bytes(pickle.dumps(problem))
            try:
                self.ask("open", START_S, problem=str(path), repeats=target.repeats)
            except ModuleFailed as error:
                self.close()
                raise DeviceError(f"IREE's runtime cannot use {target.device}: {error}") from None

    @property
    def pid(self) -> int:
        """Its number; it leads a group of its own."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can take requests."""
        return self._process.poll() is None

    def ask(self, op: str, seconds: float | None = None, **request: Any) -> Message:
        """Send a request of `worker.Modules` and return its answer; raises `ModuleFailed`.

        After a crash or a request that took too long, the process is gone.
        """
        nonce = secrets.token_hex(8)
        try:
            self._channel.send({"op": op, "nonce": nonce, **request})
            answer = self._channel.receive(seconds or self._call_s)
        except ChannelTimeout:
            self.close()
            raise ModuleFailed(Status.TIMEOUT, f"'{op}' took longer than {seconds or self._call_s:g} s") from None
        except ChannelClosed:
            code = self._ended()
            raise ModuleFailed(Status.CRASHED, f"the process that ran it {describe_exit(code)}{self._said()}") from None
        if answer.pop("nonce", None) != nonce:
            self.close()
            raise ModuleFailed(Status.CRASHED, "the process that ran it sent no proper answer")
        if not answer.pop("ok"):
            raise ModuleFailed(Status.RUNTIME_ERROR, answer["error"])
        return answer

    def _ended(self) -> int | None:
        try:
            return self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self._kill()

    def _said(self) -> str:
        """The last line of its output."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it."""
        self._channel.close()
        self._kill()
