"""A process that has imported the libraries once, and from which commands fork their evaluation servers.

Importing torch and the kernel languages takes seconds, which every command spends again. Where the variable
`KERNELWRIGHT_WARM_SERVER` names a folder, the first evaluation server that sees no GPU starts this process, later ones
are forked from it in milliseconds, whichever command asks. It ends with the folder, or after `IDLE_S` without a server.

It runs as `python -m kernelwright.evaluators.workers.warm_server FOLDER MODULE...` with the environment that servers
have, and never runs code of a kernel: its forks do what `fork_server` does. What a sandbox confines gets nothing from
it: filters of system calls refuse the type of its socket, and it checks who asks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from ...core import DeviceError, known_languages
from ...core.file_locks import wait_for_lock
from ...core.text import digest_of
from . import fork_server

VARIABLE = "KERNELWRIGHT_WARM_SERVER"
"""The variable that names the folder; it must be the user's own, since who may write there may run code as the user."""
IDLE_S = 600.0
"""Seconds after which a process without servers ends."""
IMPORT_S = 600.0
"""For its imports, as in `client`."""
REQUEST_BYTES = 1 << 17
REPLY_BYTES = 16
_AT_START = ("PYTHON", "LD_", "OMP_", "MKL_", "MALLOC_", "GLIBC_", "TRITON_INTERPRET", "KERNELWRIGHT_LANGUAGES")
"""Prefixes of variables that are read when a process or a library starts: a fork has the warm server's values."""
_ALSO_IMPORTED = ("torch._dynamo",)
"""Imported in addition to the languages, for compilers."""


class ForkedServer:
    """A server that was forked, with the part of `subprocess.Popen` that clients use."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._connection = connection
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("forked server", timeout or 0)
            self.returncode = int(self._connection.recv(REPLY_BYTES, socket.MSG_WAITALL) or -signal.SIGKILL)
            self._connection.close()
        return self.returncode

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def forked_server(
    modules: Sequence[str], environment: Mapping[str, str], channel: socket.socket, errors: IO[bytes]
) -> ForkedServer | None:
    """Return a server that serves `channel` and writes to `errors`; None where no warm server is wanted, or it ended.

    Servers that use a GPU are never forked: a process may have opened the GPU, and its forks could not use it.
    """
    folder = os.environ.get(VARIABLE)
    sees_no_gpu = environment.get("TRITON_INTERPRET") == "1" or environment.get("CUDA_VISIBLE_DEVICES") == ""
    if not folder or not sees_no_gpu:
        return None
    connection = _connect(place_in(Path(folder), environment), modules, environment)
    request = {"modules": list(modules), "environment": dict(environment), "cwd": str(Path.cwd())}
    with contextlib.suppress(OSError):
        socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [channel.fileno(), errors.fileno()])
        if pid := connection.recv(REPLY_BYTES, socket.MSG_WAITALL):
            return ForkedServer(connection, int(pid))
    connection.close()
    return None


def place_in(folder: Path, environment: Mapping[str, str]) -> Path:
    """Return where the warm server is that has started with these variables, as far as they count then."""
    at_start = {name: value for name, value in environment.items() if name.startswith(_AT_START)}
    return folder / digest_of(json.dumps(at_start, sort_keys=True))


def _connect(place: Path, modules: Sequence[str], environment: Mapping[str, str]) -> socket.socket:
    place.mkdir(parents=True, exist_ok=True)
    connection = socket.socket(socket.AF_UNIX)
    with (place / "lock").open("w") as lock:
        wait_for_lock(lock.fileno())
        with contextlib.suppress(OSError):
            connection.connect(str(place / "socket"))
            return connection
        (place / "socket").unlink(missing_ok=True)
        _start(place, modules, environment)
    connection.connect(str(place / "socket"))
    return connection


def _start(place: Path, modules: Sequence[str], environment: Mapping[str, str]) -> None:
    languages = [language.modules[0] for language in known_languages()]
    wanted = dict.fromkeys([*modules, *_ALSO_IMPORTED, *languages])
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(place), *wanted],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Torch creates this folder when torch._dynamo is imported.
            env={**environment, "TORCHINDUCTOR_CACHE_DIR": str(place / "inductor")},
            start_new_session=True,
        )
    deadline = time.monotonic() + IMPORT_S
    while not (place / "socket").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            last = (place / "log").read_text(errors="replace").strip().splitlines()[-1:]
            raise DeviceError(
                f"the warm server of {VARIABLE} did not start: {''.join(last) or 'no reason given'}",
                "unset the variable",
            )
        time.sleep(0.02)


@dataclass
class _Fork:
    pid: int
    client: socket.socket


class WarmServer:
    """Forks a server for each request, until its folder is removed or no request came for a while."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._forks: dict[int, _Fork] = {}  # by the number of the client's descriptor
        self._awake, wake = os.pipe()
        for end in (self._awake, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(place / "new"))
        self._listening.listen(64)
        (place / "new").rename(place / "socket")

    def serve(self) -> None:
        """Answer requests; a fork whose client is gone is killed."""
        idle_since = time.monotonic()
        while self._place.exists() and time.monotonic() - idle_since < IDLE_S:
            watched: list[Any] = [self._listening, self._awake, *self._forks]
            ready, _, _ = select.select(watched, [], [], 1.0)
            if self._awake in ready:
                os.read(self._awake, 4096)
            for fork in [fork for number, fork in self._forks.items() if number in ready]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(fork.pid, signal.SIGKILL)
            self._reap()
            if self._listening in ready:
                self._answer(self._listening.accept()[0])
            if self._forks:
                idle_since = time.monotonic()
        with contextlib.suppress(OSError):
            (self._place / "socket").unlink()

    def _reap(self) -> None:
        for number, fork in list(self._forks.items()):
            pid, status = os.waitpid(fork.pid, os.WNOHANG)
            if pid:
                with contextlib.suppress(OSError):
                    fork.client.send(_reply(os.waitstatus_to_exitcode(status)))
                fork.client.close()
                del self._forks[number]

    def _answer(self, client: socket.socket) -> None:
        data, descriptors, _, _ = socket.recv_fds(client, REQUEST_BYTES, 2)
        while data and not data.endswith(b"\n"):
            more = client.recv(REQUEST_BYTES)
            data = data + more if more else b""
        if len(descriptors) != 2 or not data or _is_confined(client):
            for descriptor in descriptors:
                os.close(descriptor)
            client.close()
            return
        pid = os.fork()
        if pid == 0:
            for other in (self._listening, client, *(fork.client for fork in self._forks.values())):
                other.close()
            _become(json.loads(data), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        client.send(_reply(pid))
        self._forks[client.fileno()] = _Fork(pid, client)


def _reply(number: int) -> bytes:
    return str(number).encode().ljust(REPLY_BYTES)


def _is_confined(client: socket.socket) -> bool:
    """Return whether the process that asks has fewer rights than this one: it might be a kernel's."""
    pid, _, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    try:
        return _restrictions(pid) != _restrictions(os.getpid())
    except OSError:  # it has ended
        return True


def _restrictions(pid: int) -> list[str]:
    """Return its filters of system calls, and whether it gave up gaining rights, as every sandbox demands."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("NoNewPrivs:", "Seccomp"))]


def _become(request: dict[str, Any], channel: int, errors: int) -> NoReturn:
    """Be a server as if it had been started with these modules and this environment."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["cwd"])
        tempfile.tempdir = None  # that of the new environment
        fork_server.main(channel, request["modules"])
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main(place: Path, modules: Sequence[str]) -> None:
    """Import what is installed of the modules, then serve."""
    for module in (*modules, *(f"{__package__.rpartition('.')[0]}.{role}" for role in fork_server.ROLES)):
        with contextlib.suppress(ImportError):  # the server that needs it says so
            importlib.import_module(module)
    gc.freeze()
    WarmServer(place).serve()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
