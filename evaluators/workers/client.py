"""Talks to a worker, and ends it."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ...core import DeviceError
from ...core.quotation import plain
from .channel import Channel, ChannelClosedError, ChannelTimeoutError, Message
from .log import MOST_BYTES, Log
from .memory import DeviceMemory
from .removal import remove_tree
from .shortages import killed_for_memory, memory_state

_LOG = logging.getLogger(__name__)
FLOODED = f"was stopped, since it printed more than {MOST_BYTES >> 20} MB in one request"


class WorkerDiedError(Exception):
    """A worker ended without a response, or because of an invalid one; `code` is its exit code or minus the signal.

    `cause` is what the machine lacked, where that is shown to be why.
    """

    def __init__(self, code: int | None, text: str | None = None, cause: str | None = None) -> None:
        super().__init__(text or describe_exit(code))
        self.code = code
        self.cause = cause

    @property
    def killed(self) -> bool:
        """Whether somebody killed it: no fault of a program ends with this signal."""
        return self.code == -signal.SIGKILL


class ServerEndedError(DeviceError):
    """The server that workers are forked from has ended, and they with it: none of them is to blame."""

    def __init__(self) -> None:
        super().__init__("the evaluation server ended (out of memory?)", "run again with `resume`")


class WorkerTimeoutError(Exception):
    """A worker did not respond in time and was killed."""


def describe_exit(code: int | None) -> str:
    """Return a description, such as 'killed by SIGSEGV' or 'exited with code 3'."""
    if code is None:
        return "was killed"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"
    return f"exited with code {code}"


class Ended(NamedTuple):
    """How a worker ended."""

    code: int | None
    """The process's exit code, negative for a signal; None if it had to be killed."""
    grown: int = 0
    """Bytes of memory that it took at most, beyond what its server had."""


class WorkerServer(Protocol):
    """Interface of the server that forks workers; see `server_client.ForkServer`."""

    @property
    def alive(self) -> bool:
        """Whether its process runs."""

    def end(self, number: int, grace_s: float) -> Ended:
        """End a worker and its group; return how it ended."""


class Worker:
    """A forked process that serves one request at a time."""

    def __init__(
        self,
        server: WorkerServer,
        number: int,
        pid: int,
        channel: Channel,
        log: Log,
        folder: Path,
        inbox: Path,
        device_memory: DeviceMemory,
    ) -> None:
        self._server = server
        self._device_memory = device_memory
        self._number = number
        self.pid = pid
        self._channel = channel
        self._log = log
        self.folder = folder
        """The worker's own folder, writable. Files in it may be links: read them with `sandbox.untrusted_files`."""
        self.inbox = inbox
        """The worker's input folder, which it can only read."""
        self._killed = self._ended = False
        self._memory = memory_state()
        log.stop = self.kill
        self._paused = False

    def call(self, seconds: float, **request: Any) -> Message:
        """Send a request and wait for its response.

        Raises `WorkerTimeoutError` or `WorkerDiedError`; the worker is gone after either. Raises `ServerEndedError`
        when the server ended before, which is not the worker's fault.
        """
        if not self._server.alive:
            raise ServerEndedError
        if self._killed or self._ended:
            raise WorkerDiedError(None, "had ended before")
        self._go_on()
        self._log.begin()
        nonce, began = secrets.token_hex(8), time.monotonic()
        deadline = began + seconds
        try:
            self._channel.send({**request, "nonce": nonce}, seconds)
            answer = self._channel.receive(deadline - time.monotonic())
        except ChannelTimeoutError:
            self.end(grace_s=0.0)
            raise WorkerTimeoutError from None
        except ChannelClosedError:
            code, grown = self._end(grace_s=1.0)
            if self._log.flooded:
                raise WorkerDiedError(None, FLOODED) from None
            if not self._server.alive:  # its workers ended with it
                raise ServerEndedError from None
            cause = killed_for_memory(code, self._memory, memory_state(), grown)
            raise WorkerDiedError(code, cause=cause) from None
        if answer.pop("nonce", None) != nonce:
            # A message was in the channel before the request.
            self.end()
            raise WorkerDiedError(None, "sent no proper answer")
        _LOG.debug("process %d: %s, %.3f s", self.pid, request.get("op", "request"), time.monotonic() - began)
        self._device_memory.note(self.pid, answer)
        shown: Message = _shown(answer)
        return shown

    def end(self, grace_s: float = 0.0) -> int | None:
        """End the process and its whole group; return its exit code."""
        return self._end(grace_s).code

    def _end(self, grace_s: float) -> Ended:
        if self._ended:
            return Ended(None)
        self._ended = True
        ended = self._server.end(self._number, grace_s)
        self._device_memory.forget(self.pid)
        self._channel.close()
        return ended

    def pause(self) -> None:
        """Stop the process and all that it started until the next request: it gets no processor meanwhile."""
        if not self._ended:
            self._paused = True
            self._signal(signal.SIGSTOP)

    def _go_on(self) -> None:
        if self._paused:
            self._paused = False
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):  # all of it has ended
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill the process and its whole group, without waiting for that; `end` has to follow."""
        self._killed = True
        if not self._ended:
            for kill in (os.kill, os.killpg):
                with contextlib.suppress(OSError):
                    kill(self.pid, signal.SIGKILL)

    def discard(self) -> None:
        """End the process and remove its folders."""
        self.end()
        for folder in (self.folder, self.inbox):
            remove_tree(folder)

    @property
    def alive(self) -> bool:
        """Whether it can take requests: workers end with their server."""
        return not self._killed and not self._ended and self._server.alive

    @property
    def runs(self) -> bool:
        """Whether its process has not ended by itself."""
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
            return state not in ("Z", "X")
        return False

    @property
    def log(self) -> str:
        """Return the end of its output."""
        return self._log.text


def _shown(value: Any) -> Any:
    """Return what a worker said without control characters: its texts end up in terminals, files and prompts."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [item if type(item) in _NUMBERS else _shown(item) for item in value]
    return {plain(name): _shown(field) for name, field in value.items()} if isinstance(value, dict) else value


_NUMBERS = (float, int, bool, type(None))
"""Most of what is said."""
