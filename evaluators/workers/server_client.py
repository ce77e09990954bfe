"""The client of the fork server: starts it, forks workers, ends it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ...core import DeviceError
from ...core.environment import allowed_environment
from ...core.extras import how_to_install
from .channel import Channel, Message
from .client import Ended, ServerEndedError, Worker
from .fork_server import REQUEST_BYTES
from .log import Log
from .memory import DeviceMemory
from .starter import STARTER
from .warm_server import ForkedServer, forked_server

_LOG = logging.getLogger(__name__)
STUCK = "the evaluation server did not answer within {:g} s ({}); run again with `resume`"
"""With what was waited for."""
_WAITS = {"fork": "to start a process", "end": "to end a process", "import": "to import a library"}
ANSWER_S = 60.0
"""For a fork, or the end of a worker, which take milliseconds."""
IMPORT_S = 600.0
"""For imports: from a slow disk, those of torch take minutes."""


def start_server(
    inside: Sequence[str],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    channel: socket.socket,
    errors: IO[bytes],
) -> subprocess.Popen[bytes] | ForkedServer:
    """Start the process of a server, `inside` a sandbox; or fork it from a warm one (see `warm_server`)."""
    if not inside and (forked := forked_server(arguments[1:], environment, channel, errors)) is not None:
        return forked
    return subprocess.Popen(
        # -P: a file of the user's that is called cuda.py or signal.py must not be imported for the library.
        [*inside, sys.executable, "-P", "-m", f"{__package__}.fork_server", *arguments],
        pass_fds=[channel.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env=environment,
        # A Ctrl-C at the terminal is for the command, which then ends its workers in order.
        start_new_session=True,
    )


class ForkServer:
    """A process with `modules` imported, from which workers are forked in milliseconds."""

    def __init__(
        self,
        modules: Sequence[str],
        environment: Mapping[str, str],
        inside: Sequence[str] = (),
        device_memory: DeviceMemory | None = None,
    ) -> None:
        """`inside` is a command prefix that starts the server in a sandbox; `device_memory` is that of all workers."""
        self._device_memory = device_memory or DeviceMemory()
        self._socket, theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the server)

        # What a kernel could print would end up in logs, journals and prompts.
        known = {**allowed_environment(os.environ), **import_path(), **environment}

        def command() -> subprocess.Popen[bytes] | ForkedServer:
            with theirs:
                return start_server(inside, [str(theirs.fileno()), *modules], known, theirs, self._errors)

        self._process = STARTER.start(command)
        self._ended = False
        self._ready: Message | None = None
        self._loaded: dict[str, str | None] = {}  # why not, for modules that could not be imported
        self._pid = self._process.pid
        _LOG.debug("server %d starts with %s", self._pid, ", ".join(modules) or "no modules")

    @property
    def pid(self) -> int:
        """The id of the process from which workers are forked; waits until the server is ready."""
        self.wait_ready()  # behind a sandbox, known only then
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether the server's process runs."""
        return not self._ended and self._process.poll() is None

    @property
    def ready(self) -> bool:
        """Whether the imports are done, or have failed: `wait_ready` would not wait."""
        if self._ready is not None or self._socket.fileno() < 0:
            return self._ready is not None
        there = select.poll()
        there.register(self._socket, select.POLLIN)
        return bool(there.poll(0))

    def wait_ready(self) -> None:
        """Block until the imports are done; raises `DeviceError` when the server did not start."""
        with self._lock:
            if self._ready is None:
                try:
                    data, pid = self._receive(IMPORT_S)
                except TimeoutError:
                    self._stuck()
                    raise DeviceError(STUCK.format(IMPORT_S, "to import its libraries")) from None
                if not data:
                    if self._was_killed():
                        raise ServerEndedError
                    self._errors.seek(0)
                    last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
                    raise DeviceError(f"the evaluation server did not start: {''.join(last) or 'no reason given'}")
                self._ready = json.loads(data)
                # The started process may be the sandbox, with the server as its child.
                self._pid = pid or self._pid

    def load(self, module: str, support: str | None = None) -> None:
        """Import one more module in the server, for workers forked from now on; no effect if it is there.

        `support` is the module of a language's `SUPPORT`, which does what each worker would do again. Raises
        `DeviceError` for a module that cannot be imported.
        """
        self.wait_ready()
        if module not in self._loaded:
            request = {"op": "import", "module": module, "support": support}
            self._loaded[module] = self._request(request, [], IMPORT_S)[0]["error"]
        if (error := self._loaded[module]) is not None:
            raise DeviceError(f"cannot import {module}: {error}", how_to_install(module))

    def knows(self, module: str) -> bool:
        """Whether `load` has imported the module, or found that it cannot be."""
        return module in self._loaded

    def fork(self, role: str, folder: Path, inbox: Path | None = None, **options: Any) -> Worker:
        """Fork a new worker of a role (a module of this package) that lives in `folder`.

        Its input files are in `inbox`, by default the same folder. Options are the role's and
        `confinement.enter`'s: memory_gib, file_gib, cache (a folder), nice, rules; and visible, the one GPU that the
        worker sees.
        """
        self.wait_ready()
        began = time.monotonic()
        channel, theirs = Channel.pair()
        log = Log()
        try:
            with theirs:
                request = {"op": "fork", "role": role, "folder": str(folder), **options}
                answer, pid = self._request(request, [theirs.fileno(), log.sink], ANSWER_S)
        finally:
            log.given()
        inbox = inbox or folder
        _LOG.debug("process %d: forked as %s, %.3f s", pid or answer["pid"], role, time.monotonic() - began)
        return Worker(self, answer["pid"], pid or answer["pid"], channel, log, folder, inbox, self._device_memory)

    def end(self, number: int, grace_s: float) -> Ended:
        """End a worker, by its number in the server, and everything it started; return how it ended."""
        with contextlib.suppress(DeviceError):
            request, began = {"op": "end", "pid": number, "grace_s": grace_s}, time.monotonic()
            answer = self._request(request, [], grace_s + ANSWER_S)[0]
            _LOG.debug("worker %d of server %d: ended, %.3f s", number, self._pid, time.monotonic() - began)
            return Ended(answer["status"], answer["grown"])
        return Ended(None)

    def _request(self, request: Message, fds: list[int], seconds: float) -> tuple[Message, int | None]:
        with self._lock:
            if self._ended:
                raise ServerEndedError
            try:
                self._socket.settimeout(seconds)
                socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
                data, pid = self._receive(seconds)
                answer: Message = json.loads(data)
            except TimeoutError:
                self._stuck()
                raise DeviceError(STUCK.format(seconds, _WAITS[request["op"]])) from None
            except (OSError, ValueError):
                self._ended = True  # the sandbox around it may end a little later
                raise ServerEndedError from None
            except BaseException:
                self._ended = True  # Ctrl-C: the response would be taken for the next one's
                raise
            return answer, pid

    def _was_killed(self) -> bool:
        """Return whether a server whose channel has closed was killed, which is no reason of its own."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(5) == -signal.SIGKILL
        return False

    def _stuck(self) -> None:
        """Kill a server that does not answer; its workers end with it."""
        self._ended = True
        self._process.kill()

    def _receive(self, seconds: float) -> tuple[bytes, int | None]:
        """Return a message, and the pid of the process that it concerns, as numbered in this namespace."""
        self._socket.settimeout(seconds)
        data, fds, _, _ = socket.recv_fds(self._socket, REQUEST_BYTES, 1)
        try:
            return data, _number_of(fds[0]) if fds else None
        finally:
            for descriptor in fds:
                os.close(descriptor)

    def close(self) -> None:
        """End the server and all its workers."""
        self._socket.close()
        if self._ready is None:  # still importing: there are no workers to end
            self._kill()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._errors.close()

    def _kill(self) -> None:
        """Kill the server with what starts it: a child of bubblewrap's waits for its parent without end."""
        if self._process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()


def import_path() -> dict[str, str]:
    """Return PYTHONPATH with the working folder, which a sandbox leaves, if this package comes from there."""
    if Path.cwd() != Path(__file__).parents[3]:
        return {}
    return {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])}


def _number_of(process: int) -> int | None:
    """Return the pid behind a pidfd, as numbered in this process's namespace."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/self/fdinfo/{process}").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "Pid" and int(value) > 0:
                return int(value)
    return None
